"""Windows of seeds: who writes more than they read, from one moment to another? It needs PyTorch.

python windows.py [MESSAGES]: a file of lines "writer reader time", such as CollegeMsg.txt; else messages are made up.
Each question has a window of its own, and its part of a batch the latest 50 messages of the window. Those before it
were of another mood: the same model without windows, though it has each message's age and the window's length, errs.
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
    pair, when = table[:, :2].T - 1, table[:, 2] - table[0, 2]
else:  # who writes in a pair is the one in a mood for it; moods change sixteen times
    pair, when = rng.integers(0, 1000, (2, 60_000)), np.sort(rng.integers(0, 1_000_000, 60_000))
    talks = (rng.random((1000, 16)) < 0.5)[pair, when * 16 // 1_000_000] + rng.random(pair.shape)
    pair = np.where(talks[0] > talks[1], pair, pair[::-1])
other, whose = np.concatenate([pair[::-1], pair], 1)  # each message twice: its writer's, then its reader's
time, wrote, whole = np.tile(when, 2), np.repeat(np.float32([1, -1]), len(when)), int(when[-1]) + 1

# A question ends at a message of its person, in order of time, and looks back for up to a tenth of the whole time.
about = np.sort(rng.choice(len(when), 6000, replace=False)) + len(when) * rng.integers(0, 2, 6000)
begin = np.maximum(time[about] - whole * rng.integers(1, 101, len(about)) // 1000, 0)
order = np.lexsort([time, whose])
sums = np.concatenate([[0], np.cumsum(wrote[order])])
first, last = (np.searchsorted((whose * whole + time)[order], whose[about] * whole + t, side)
               for t, side in ((begin, "left"), (time[about], "right")))
balance = sums[last] - sums[first]
about, begin, balance = (a[balance != 0] for a in (about, begin, balance))


class Model(torch.nn.Module):
    """The sum over messages of what each one says at its age."""

    def __init__(self):
        super().__init__()
        self.message, self.out = torch.nn.Linear(3, 32), torch.nn.Linear(32, 1)

    def forward(self, batch, begin, end):
        target = batch.edge_index[1]
        sent, said = (batch.array(f"edge/0/node:edge:node/{column}") for column in ("time", "wrote"))
        told = torch.stack([said, (end[target] - sent) / whole, (end - begin)[target] / whole], 1)
        return self.out(torch.zeros(len(end), 32).index_add(0, target, self.message(told).relu()))[:, 0]


def learn(path, windows):
    """The share of right answers about the later half, having seen the earlier half ten times."""
    torch.manual_seed(5)
    model, half = Model(), len(about) // 2
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    train, test = (khop.Loader(
        path, [50], sampler="temporal", time="time", recent=True, disjoint=True, edge_columns=["time", "wrote"],
        seeds=whose[about[part]], input_time=time[about[part]], input_start_time=begin[part] if windows else None,
        batch_size=100, shuffle=True) for part in (slice(half), slice(half, None)))
    for loader in [train] * 10 + [test]:
        right = 0
        for batch in loader:
            question = batch.input_id.numpy() + half * (loader is test)
            first, last, answer = (torch.from_numpy(a[question]) for a in (begin, time[about], balance > 0))
            logits = model(batch, first, last)
            right += int(((logits > 0) == answer).sum())
            if loader is train:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, answer.float())
                optimizer.zero_grad(), loss.backward(), optimizer.step()
    return right / (len(about) - half)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "mail.khop")
    khop.write(path, {"edge_index": np.stack([other, whose]), "edge_time": time, "edge_wrote": wrote})
    right = learn(path, True)
    print(f"accuracy {right:.3f}, must be at least 0.9; without windows {learn(path, False):.3f}")
    assert right >= 0.9
