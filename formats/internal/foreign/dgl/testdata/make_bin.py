"""Writes graphs by dgl.save_graphs, and what DGL reads of them, as sourcetest.Spell writes it. Run it here; needs dgl."""
import dgl
import torch


def array(t):
    return "[" + ",".join(repr(float(v)).removesuffix(".0") for v in t.double().flatten().tolist()) + "]"


def edges(g, etype, form, column):
    if form == "coo":
        src, dst, ids = g.edges(form="all", order="eid", etype=etype)
    else:
        a, b, ids = g.adj_tensors(form, etype=etype)
        row = torch.repeat_interleave(torch.arange(len(a) - 1), (a[1:] - a[:-1]).long())
        src, dst = (row, b) if form == "csr" else (b, row)
    at = [""] * len(src)
    if column:
        at = [":" + array(v)[1:-1] for v in g.edges[etype].data[column][ids.long()]]
    return " ".join(f"{s}>{d}{c}" for s, d, c in zip(src.tolist(), dst.tolist(), at))


def save(name, g, form, text, labels=None):
    dgl.save_graphs(name + ".bin", [g], {"of_all": torch.tensor([1])} | (labels or {}), formats=form)
    with open(name + ".bin", "r+b") as f:  # what follows the header is whatever lay in memory
        f.seek(32)
        f.write(bytes(4096 - 32))
    with open(name + ".txt", "w", newline="\n") as f:
        f.write(text(dgl.load_graphs(name + ".bin")[0][0]))


def plain(form):
    def text(g):
        d = g.ndata
        lines = [
            "5 node, 3 classes",
            f"  feature float32[2]: {array(d['feat'])}",
            f"  label int64[]: {array(d['label'])}",
            "edge weight float32[]",
            f"node:edge:node {edges(g, g.canonical_etypes[0], form, 'weight')}",
            f"train 0 of node: [{' '.join(str(int(i)) for i in d['train_mask'].nonzero().flatten())}]",
        ]
        return "\n".join(lines) + "\n"

    return text


def typed(g):
    labels = dgl.data.utils.load_labels("typed.bin")["item"]
    lines = ["2 item, 2 classes", f"  label int64[]: {array(labels)}"]
    lines += [f"  price float64[]: {array(g.nodes['item'].data['price'])}", "3 user"]
    for e in ("buys", "follows"):
        (t,) = (t for t in g.canonical_etypes if t[1] == e)
        lines.append(":".join(t) + " " + edges(g, t, "coo", None))
    return "\n".join(lines) + "\n"


g = dgl.graph((torch.tensor([0, 4, 2, 2, 0, 4]), torch.tensor([1, 2, 0, 3, 1, 0])), num_nodes=5)
g.ndata["feat"] = torch.arange(10).float().reshape(5, 2) / 4
g.ndata["label"] = torch.tensor([0, 2, 1, 1, 0])
g.ndata["train_mask"] = torch.tensor([True, False, True, False, False])
g.edata["weight"] = torch.tensor([0.5, 1, 2, 3, 4, 5])
save("coo", g, "coo", plain("coo"))
save("csr", g.int(), "csr", plain("csr"))
save("csc", g, "csc", plain("csc"))
h = dgl.heterograph({
    ("user", "follows", "user"): (torch.tensor([0, 1]), torch.tensor([1, 2])),
    ("user", "buys", "item"): (torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1])),
})
h.nodes["item"].data["price"] = torch.tensor([2.5, 3.75], dtype=torch.float64)
save("typed", h, None, typed, {"item": torch.tensor([1, 0])})
