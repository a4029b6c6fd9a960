"""What a model learns of windows by seed, which khop's loader keeps to, beside PyG's, which has none.

    python bench/sequences/learn_windows.py CollegeMsg.txt [--seeds 5]

The questions, the model and the halves are those of examples/python/windows.py, with other questions for each seed: did
a person write more than they read within a window, which is up to a tenth of the whole time? The model has each
message's age and the window's length. It prints the share of right answers about the later half: mean, least and most.
It needs torch, torch_geometric and pyg-lib; KHOP_LIBRARY and KHOP_BIN.

    khop                    input_start_time and input_time
    khop, no windows        input_time alone
    PyG                     NeighborLoader with input_time
    PyG, masked             the same; the model leaves out what was before the window

Each way takes the latest messages (recent, "last"), or any of them (uniform).
"""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader

import khop


class Mail:
    """The messages of each person, and questions."""

    def __init__(self, file):
        table = np.loadtxt(file, np.int64)
        pair, when = table[:, :2].T - 1, table[:, 2] - table[0, 2]
        self.other, self.whose = np.concatenate([pair[::-1], pair], 1)
        self.time, self.wrote = np.tile(when, 2), np.repeat(np.float32([1, -1]), len(when))
        self.whole, self.people = int(when[-1]) + 1, int(pair.max()) + 1
        self.order = np.lexsort([self.time, self.whose])
        self.key = (self.whose * self.whole + self.time)[self.order]
        self.sums = np.concatenate([[0], np.cumsum(self.wrote[self.order])])

    def ask(self, seed, count=6000):
        """The person, window and answer of each question, in order of time."""
        rng, half = np.random.default_rng(seed), len(self.time) // 2
        about = np.sort(rng.choice(half, count, replace=False)) + half * rng.integers(0, 2, count)
        who, end = self.whose[about], self.time[about]
        begin = np.maximum(end - self.whole * rng.integers(1, 101, count) // 1000, 0)
        first, last = (np.searchsorted(self.key, who * self.whole + t, side)
                       for t, side in ((begin, "left"), (end, "right")))
        balance = self.sums[last] - self.sums[first]
        return [a[balance != 0] for a in (who, begin, end, balance > 0)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.message, self.out = torch.nn.Linear(3, 32), torch.nn.Linear(32, 1)

    def forward(self, target, said, age, long, seen):
        told = self.message(torch.stack([said, age, long[target]], 1)).relu() * seen[:, None]
        return self.out(torch.zeros(len(long), 32).index_add(0, target, told))[:, 0]


def learn(mail, questions, load, masked):
    """load(part) gives an iterable of [questions, target, messages' time, messages' sign]."""
    _, begin, end, answer = map(torch.from_numpy, questions)
    model, half = Model(), len(answer) // 2
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    parts = [load(slice(half)), load(slice(half, None))]
    for loader in [parts[0]] * 10 + [parts[1]]:
        right = 0
        for question, target, sent, said in loader:
            question = question + half * (loader is parts[1])
            first, last = begin[question], end[question]
            seen = (sent >= first[target]).float() if masked else torch.ones(len(sent))
            logits = model(target, said, (last[target] - sent) / mail.whole, (last - first) / mail.whole, seen)
            right += int(((logits > 0) == answer[question]).sum())
            if loader is parts[0]:
                loss = F.binary_cross_entropy_with_logits(logits, answer[question].float())
                optimizer.zero_grad(), loss.backward(), optimizer.step()
    return right / (len(answer) - half)


class Khop:
    def __init__(self, mail, path, questions, part, fanout, latest, windows):
        who, begin, end, _ = (a[part] for a in questions)
        self.loader = khop.Loader(
            path, [fanout], sampler="temporal", time="time", recent=latest, disjoint=True, seeds=who, input_time=end,
            input_start_time=begin if windows else None, batch_size=100, shuffle=True, process="inside", workers=1,
            edge_columns=["time", "wrote"])

    def __iter__(self):
        for batch in self.loader:
            yield (batch.input_id.long(), batch.edge_index[1],
                   *(batch.array(f"edge/0/node:edge:node/{c}") for c in ("time", "wrote")))


class PyG:
    def __init__(self, mail, data, questions, part, fanout, latest):
        who, _, end, _ = (torch.from_numpy(a[part]) for a in questions)
        self.data, self.loader = data, NeighborLoader(
            data, [fanout], input_nodes=who, input_time=end, time_attr="time", batch_size=100, shuffle=True,
            temporal_strategy="last" if latest else "uniform", disjoint=True)

    def __iter__(self):
        for batch in self.loader:
            yield batch.input_id, batch.edge_index[1], self.data.time[batch.e_id], self.data.wrote[batch.e_id]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    mail, figures = Mail(args.file), {}
    data = Data(edge_index=torch.from_numpy(np.stack([mail.other, mail.whose])), num_nodes=mail.people,
                time=torch.from_numpy(mail.time), wrote=torch.from_numpy(mail.wrote))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mail.khop")
        khop.write(path, {"edge_index": np.stack([mail.other, mail.whose]), "edge_time": mail.time,
                          "edge_wrote": mail.wrote, "num_nodes": mail.people})
        for seed in range(args.seeds):
            questions = mail.ask(seed)
            for latest in (True, False):
                for fanout in (20, 50):
                    def khops(windows):
                        return lambda part: Khop(mail, path, questions, part, fanout, latest, windows)

                    def pyg(part):
                        return PyG(mail, data, questions, part, fanout, latest)
                    for way, load in {"khop": khops(True), "khop, no windows": khops(False), "PyG": pyg,
                                      "PyG, masked": pyg}.items():
                        torch.manual_seed(seed)
                        name = f"{'latest' if latest else 'any'} {fanout}: {way}"
                        figures.setdefault(name, []).append(learn(mail, questions, load, way == "PyG, masked"))
    for name, reached in figures.items():
        print(f"{name}: {np.mean(reached):.3f} ({min(reached):.3f} to {max(reached):.3f})")


if __name__ == "__main__":
    main()
