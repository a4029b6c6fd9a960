"""Writes a CSVDataset, and what DGL reads of it, as sourcetest.Spell writes it. Run it in this folder; needs dgl."""
import os
import shutil

import dgl

files = {
    "meta.yaml": """dataset_name: shop
edge_data:
- file_name: bought.csv
  etype: [user, bought, item]
- file_name: follows.csv
  etype: [user, follows, user]
node_data:
- file_name: users.csv
  ntype: user
- file_name: items.csv
  ntype: item
""",
    "users.csv": 'node_id,label,train_mask,feat\n3,1,1,"0.5,1.25"\n5,0,0,"2,-1"\n9,2,1,"0,8"\n',
    "items.csv": "node_id,price\n0,2.5\n1,3.75\n",
    "bought.csv": "src_id,dst_id,at\n3,0,100\n9,1,200\n5,0,300\n",
    "follows.csv": "src_id,dst_id\n9,3\n5,9\n",
}
shutil.rmtree("csv", ignore_errors=True)

os.makedirs("csv")
for name, text in files.items():
    with open("csv/" + name, "w", newline="\n") as f:
        f.write(text)
g = dgl.data.CSVDataset("csv", force_reload=True)[0]  # which orders nodes by their ids
shutil.rmtree("csv/shop")  # its copy


def array(t):
    return "[" + ",".join(repr(float(v)).removesuffix(".0") for v in t.double().flatten().tolist()) + "]"


def edges(name, column):
    src, dst = g.edges(etype=name, order="eid")
    at = g.edges[name].data["at"].tolist() if column else [0] * len(src)
    return " ".join(f"{s}>{d}:{t}" for s, d, t in zip(src.tolist(), dst.tolist(), at))


user, item = g.nodes["user"].data, g.nodes["item"].data
text = f"3 user, 3 classes\n  id int64[]: [3,5,9]\n  feature float32[2]: {array(user['feat'])}\n  label int64[]: {array(user['label'])}\n"
text += f"2 item\n  price float64[]: {array(item['price'])}\nedge at int64[]\n"
text += f"user:bought:item {edges('bought', True)}\nuser:follows:user {edges('follows', False)}\n"
text += f"train 0 of user: [{' '.join(str(int(i)) for i in user['train_mask'].nonzero().flatten())}]\n"
with open("csv.txt", "w", newline="\n") as f:
    f.write(text)
