"""What a link predictor learns on khop's sequences and historical negatives, beside TGM's hooks.

    python bench/sequences/learn_links.py CollegeMsg.txt [--seeds 5] [--epochs 3]

The model is that of examples/python/history.py: it compares the latest 20 partners of both ends of a link. Each batch
of training has 200 messages, of the first 70 %, as many earlier readers of the same writers, and as many random ones.
Each message of the last 15 % is ranked among 100 negatives as TGB makes them: up to 50 distinct readers of its writer
in training, filled up with others, none of whom the writer writes to at that time. It prints the mean reciprocal rank,
ties half won: mean, least and most of the seeds; and seconds of an epoch. It needs torch, TGM's sources on PYTHONPATH
(tgm-team/tgm at 5183dc9d); KHOP_LIBRARY and KHOP_BIN.

    TGM                hooks of recent neighbours, random and historical negatives; partners are of earlier batches
    TGM, no false ones the same without historical negatives that are the message itself, which its hook draws, too
    khop, as TGM       as of each batch's first message
    khop               as of each message
    khop, shuffled     the same in a new order each epoch, as khop's loader has no state
"""
import argparse
import os
import tempfile
import time
import warnings

import numpy as np
import torch
import torch.nn.functional as F

import khop

K, SIZE, LIST = 20, 200, 100
warnings.filterwarnings("ignore")


class Mail:
    def __init__(self, file):
        table = np.loadtxt(file, np.int64)
        self.pairs, self.time = table[:, :2].T - 1, table[:, 2] - table[0, 2]
        self.people = int(self.pairs.max()) + 1
        self.cut = len(self.time) * np.array([0, 14, 17, 20]) // 20
        parts = [np.arange(end - begin) // SIZE * SIZE + begin for begin, end in zip(self.cut, self.cut[1:])]
        self.first = self.time[np.concatenate(parts)]  # of its batch

    def lists(self, seed):
        """LIST negatives for each message of the test."""
        rng, past, now, lists = np.random.default_rng(seed), {}, {}, []
        for writer, reader in self.pairs[:, :self.cut[1]].T:
            past.setdefault(writer, set()).add(reader)
        test = slice(self.cut[2], None)
        for (writer, reader), t in zip(self.pairs[:, test].T, self.time[test]):
            now.setdefault((writer, t), set()).add(reader)
        for (writer, _), t in zip(self.pairs[:, test].T, self.time[test]):
            true = now[writer, t]
            earlier = rng.permutation(sorted(past.get(writer, set()) - true))[:LIST // 2].astype(np.int64)
            others = np.setdiff1d(np.arange(self.people), np.concatenate([earlier, list(true)]))
            lists.append(np.concatenate([earlier, rng.choice(others, LIST - len(earlier), replace=False)]))
        return np.stack(lists)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.partner, self.out = torch.nn.Linear(3, 32), torch.nn.Sequential(
            torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))

    def forward(self, ends, ids, age):
        """Logits of links: ends [2, links]; partners and their ages [2, links, K], -1 where there is none."""
        told = []
        for this, other in ((0, 1), (1, 0)):
            same, shared = ids[this] == ends[other][:, None], (ids[this][:, :, None] == ids[other][:, None]).any(2)
            partners = self.partner(torch.stack([same, shared, (age[this] / 3600 + 1).log() / 5], 2)).relu()
            told.append((partners * (ids[this] >= 0)[..., None]).sum(1))
        return self.out(torch.cat(told, 1))[:, 0]


class Khop:
    def __init__(self, mail, path, seed, shuffle, batchwise):
        self.mail, self.path, self.seed, self.shuffle = mail, path, seed, shuffle
        self.time = mail.first if batchwise else mail.time
        negatives = {"historical": {"negative_history": "time", "negative_fill": True}, "uniform": {}}
        self.loaders = [self.load(0, shuffle=shuffle, negatives=law, **more) for law, more in negatives.items()]

    def load(self, part, **options):
        part = slice(*self.mail.cut[part:part + 2])
        return khop.Loader(
            self.path, [K], sampler="temporal", time="time", recent=True, time_rules="before", direction="both",
            sequence=K, edge_label_index=self.mail.pairs[:, part], edge_label_time=self.time[part], batch_size=SIZE,
            seed=self.seed, process="inside", workers=1, **options)

    def links(self, batch, part):
        ends = batch.n_id[batch.edge_label_index]
        ids, age = (a.view(2, ends.shape[1], K) for a in (batch.sequences.ids, batch.sequences.age))
        event = self.mail.cut[part] + batch.input_id.numpy()[batch.edge_label_group.numpy()]
        late = torch.from_numpy(self.mail.time[event] - self.time[event])  # of the message, behind its batch's first
        return ends, ids, age + late[:, None] * (ids >= 0)

    def train(self):
        for both in zip(*self.loaders):
            links, labels = zip(*((self.links(batch, 0), batch.edge_label > 0) for batch in both))
            kept = torch.cat([torch.ones_like(labels[0]), ~labels[1]])  # the messages once
            yield [torch.cat(a, 1)[:, kept] for a in zip(*links)], torch.cat(labels)[kept]

    def test(self, lists):
        for batch in self.load(2, edge_label_negatives=lists):
            yield self.links(batch, 2)


class TGM:
    def __init__(self, mail, honest):
        from tgm import DGBatch, DGraph
        from tgm.data import DGData
        from tgm.hooks import HistoricalNegativeEdgeSamplerHook, RandomNegativeEdgeSamplerHook, RecencyNeighborHook
        self.mail, self.kind, self.honest = mail, DGBatch, honest
        self.pairs, self.time = torch.from_numpy(mail.pairs).int(), torch.from_numpy(mail.time)
        self.graph = DGraph(DGData.from_raw(self.time[:1], self.pairs.T[:1].contiguous()))
        self.earlier, self.anyone = HistoricalNegativeEdgeSamplerHook(), RandomNegativeEdgeSamplerHook(0, mail.people)
        self.partners = RecencyNeighborHook(mail.people, [K], ["sources", "targets"], ["times", "times"])

    def batches(self, part):
        for begin in range(self.mail.cut[part], self.mail.cut[part + 1], SIZE):
            cut = slice(begin, min(begin + SIZE, self.mail.cut[part + 1]))
            yield self.kind(*self.pairs[:, cut], self.time[cut])

    def links(self, batch, targets):
        """Of each message with its reader, then with each row of other targets."""
        times = 1 + targets.shape[0]
        batch.sources, batch.times = batch.edge_src.repeat(times), batch.edge_time.repeat(times)
        batch.targets = torch.cat([batch.edge_dst, targets.flatten()]).int()
        self.partners(self.graph, batch)
        ids = batch.nbr_nids[0].view(2, -1, K)
        age = (batch.times[:, None] - batch.nbr_edge_time[0].view(2, -1, K)) * (ids >= 0)
        return torch.stack([batch.sources, batch.targets]), ids, age

    def train(self):
        self.earlier.reset_state()
        self.partners.reset_state()
        for batch in self.batches(0):
            earlier = self.earlier(self.graph, batch).neg
            anyone = self.anyone(self.graph, batch).neg
            fill = torch.randint(self.mail.people, earlier.shape, dtype=earlier.dtype)
            links = self.links(batch, torch.stack([torch.where(earlier < 0, fill, earlier), anyone]))
            kept = torch.ones(links[0].shape[1], dtype=torch.bool)
            if self.honest:
                kept[len(batch.edge_src):] = links[0][1, len(batch.edge_src):] != batch.edge_dst.repeat(2)
            yield [a[:, kept] for a in links], (torch.arange(len(kept)) < len(batch.edge_src))[kept]

    def test(self, lists):
        for batch in self.batches(1):
            self.links(batch, batch.edge_dst[None][:0])
        for i, batch in enumerate(self.batches(2)):
            ends, *rest = self.links(batch, torch.from_numpy(lists[i * SIZE:(i + 1) * SIZE].T.copy()))
            n = len(batch.edge_src)  # from list by list to message by message
            order = torch.cat([torch.arange(n), n + torch.arange(n * LIST).view(LIST, n).T.flatten()])
            yield [a[:, order] for a in (ends, *rest)]


def learn(way, lists, epochs):
    """The mean reciprocal rank, and the median seconds of an epoch of training."""
    model, took, ranks = Model(), [], []
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(epochs):
        begin = time.perf_counter()
        for links, label in way.train():
            loss = F.binary_cross_entropy_with_logits(model(*links), label.float())
            optimizer.zero_grad(), loss.backward(), optimizer.step()
        took.append(time.perf_counter() - begin)
    with torch.no_grad():
        for links in way.test(lists):
            score = model(*links)
            true, false = score[:len(score) // (1 + LIST), None], score[len(score) // (1 + LIST):].view(-1, LIST)
            ranks.append(1 + ((false > true).sum(1) + (false >= true).sum(1)) / 2)
    ranks = torch.cat(ranks)
    assert len(ranks) == len(lists)
    return float((1 / ranks).mean()), float(np.median(took))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    mail, figures = Mail(args.file), {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mail.khop")
        khop.write(path, {"edge_index": mail.pairs, "edge_time": mail.time, "num_nodes": mail.people})
        for seed in range(args.seeds):
            lists = mail.lists(seed)
            for name, make in {"TGM": lambda: TGM(mail, False), "TGM, no false ones": lambda: TGM(mail, True),
                               "khop, as TGM": lambda: Khop(mail, path, seed, False, True),
                               "khop": lambda: Khop(mail, path, seed, False, False),
                               "khop, shuffled": lambda: Khop(mail, path, seed, True, False)}.items():
                torch.manual_seed(seed)
                figures.setdefault(name, []).append(learn(make(), lists, args.epochs))
                print(seed, name, *figures[name][-1], flush=True)
    for name, reached in figures.items():
        mrr, took = zip(*reached)
        print(f"{name}: MRR {np.mean(mrr):.3f} ({min(mrr):.3f} to {max(mrr):.3f}), {np.median(took):.2f} s an epoch")


if __name__ == "__main__":
    main()
