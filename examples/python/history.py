"""Who writes to whom next? A link predictor on a history, judged as TGB does it. It needs PyTorch.

python history.py [MESSAGES]: a file of lines "writer reader time", such as CollegeMsg.txt; else messages are made up.
The model compares the latest 20 partners of both ends before each message. Negatives of training are earlier partners,
and anyone. Each message of the test is ranked among 20 negatives of its own, half of them earlier partners.
"""
import os
import sys
import tempfile

import numpy as np
import torch

import khop

rng = np.random.default_rng(5)
if sys.argv[1:]:
    table = np.loadtxt(sys.argv[1], np.int64)
    pairs, when = table[:, :2].T - 1, table[:, 2]
else:  # each of 500 people writes to one friend at a time, to eight in all
    pairs, when = rng.integers(0, 500, (2, 20_000)), np.sort(rng.integers(0, 1_000_000, 20_000))
    pairs[1] = rng.integers(0, 500, (500, 8))[pairs[0], (when + 250 * pairs[0]) * 7 // 1_000_000]
people, cut = pairs.max() + 1, len(when) * np.array([4, 17, 20]) // 20  # the first messages are history alone


def negatives(count=20):
    """For each message of the test up to half earlier readers of its writer, then anyone, but never its reader."""
    past, lists = {}, []
    for writer, reader in pairs[:, :cut[1]].T:
        past.setdefault(writer, set()).add(reader)
    for writer, reader in pairs[:, cut[1]:].T:
        earlier = rng.permutation(list(past.get(writer, set()) - {reader}))[:count // 2].astype(int)
        anyone = rng.integers(0, people - 1, count - len(earlier))
        lists.append(np.concatenate([earlier, anyone + (anyone >= reader)]))
    return np.stack(lists)


class Model(torch.nn.Module):
    """Sums over partners: whether each is the other end, or one of its partners, and how many hours ago."""

    def __init__(self):
        super().__init__()
        self.partner, self.out = torch.nn.Linear(3, 32), torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, batch):
        ends, told = batch.n_id[batch.edge_label_index], []
        ids, age = (a.view(2, ends.shape[1], -1) for a in (batch.sequences.ids, batch.sequences.age))
        for this, other in ((0, 1), (1, 0)):
            same, shared = ids[this] == ends[other][:, None], (ids[this][:, :, None] == ids[other][:, None]).any(2)
            partners = self.partner(torch.stack([same, shared, (age[this] / 3600 + 1).log() / 5], 2)).relu()
            told.append((partners * (ids[this] >= 0)[..., None]).sum(1))
        return self.out(torch.cat(told, 1))[:, 0]


torch.manual_seed(5)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), 0.01)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "mail.khop")
    khop.write(path, {"edge_index": pairs, "edge_time": when, "num_nodes": people})

    def load(begin, end, **options):
        return khop.Loader(path, [20], sampler="temporal", time="time", recent=True, time_rules="before",
                           direction="both", sequence=20, edge_label_index=pairs[:, begin:end],
                           edge_label_time=when[begin:end], batch_size=200, **options)
    with load(*cut[:2], shuffle=True, negatives="historical", negative_history="time", negative_fill=True) as earlier, \
            load(*cut[:2], shuffle=True, negatives="uniform") as anyone:
        for batch in (b for _ in range(2) for both in zip(earlier, anyone) for b in both):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch), (batch.edge_label > 0).float())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
    with load(*cut[1:], edge_label_negatives=negatives()) as test, torch.no_grad():
        scores = ((model(batch), len(batch.dst_neg_index)) for batch in test)
        true, false = (torch.cat(a) for a in zip(*((s[:n, None], s[n:].view(n, -1)) for s, n in scores)))
mrr = (1 / (1 + ((false > true).sum(1) + (false >= true).sum(1)) / 2)).mean()
print(f"MRR {mrr:.3f}, must be at least 0.76")
assert mrr >= 0.76
