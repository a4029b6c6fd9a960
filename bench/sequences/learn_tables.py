"""What lookbacks in a task's table bring: planes of nycflights13, with a window for each row, beside none.

    python bench/sequences/learn_tables.py nycflights13 [--seeds 5]

Task "was": did a plane arrive more than 15 minutes late in the mean, within the 3 to 60 days before, as the row says
(lookback_col)? Task "will": the database's plane_late, about the next 7 days, with 7 or 30 days before for every row.
The model takes the mean over the latest 50 flights, of their delays and ages, and has the row's lookback. It prints the
area under the ROC curve of the test: mean, least and most. It needs torch; KHOP_LIBRARY and KHOP_BIN.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

import khop

DAY, SPLITS = 86400, ("train", "val", "test")
TASK = ("name: {}\nkind: external\ntask_type: binary_classification\nentity_table: planes\nentity_col: tailnum_id\n"
        "target_col: label\ntime_col: timestamp\n{}")


def load(path, task, split, **options):
    return khop.Loader(path, {"f2p_tailnum_id": [options.pop("flights", 50)], "*": [0]}, sampler="temporal",
                       node_time="time", recent=True, disjoint=True, seeds=f"task:{task}:{split}", process="inside",
                       workers=1, **options)


def rows(path):
    """Of each split plane, time, label, and all flights before as row, time, delay."""
    for split in SPLITS:
        with load(path, "plane_late", split, flights=-1, batch_size=1 << 20) as loader:
            batch = next(iter(loader))
            flight, row = batch["flights", "f2p_tailnum_id", "planes"].edge_index
            planes, flights = batch["planes"], batch["flights"]
            yield split, [a.clone() for a in (planes.n_id[planes.seeds], batch.seed_time, batch.label, row,
                                              flights["time"][flight], flights["numerical"][flight, 6])]


def write(folder, name, split, plane, time, label, lookback):
    task = folder / "tasks" / name
    task.mkdir(parents=True, exist_ok=True)
    (task / "manifest.yaml").write_text(TASK.format(name, "" if lookback is None else "lookback_col: lookback\n"))
    moments = np.asarray(time).astype("datetime64[s]")
    with open(task / f"{split}.csv", "w") as file:
        file.write("timestamp,tailnum_id,label" + ("" if lookback is None else ",lookback") + "\n")
        for i, (moment, *values) in enumerate(zip(moments, plane.tolist(), label.tolist())):
            more = [] if lookback is None else [int(lookback[i])]
            file.write(",".join(map(str, [str(moment).replace("T", " "), *values, *more])) + "\n")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.flight, self.out = torch.nn.Linear(4, 32), torch.nn.Linear(33, 1)

    def forward(self, batch, lookback):
        flight, row = batch["flights", "f2p_tailnum_id", "planes"].edge_index
        delays = batch["flights"]["numerical"][flight][:, [4, 6]].nan_to_num() / 60
        age = (batch.seed_time[row] - batch["flights"]["time"][flight])[:, None] / DAY / 30
        told = self.flight(torch.cat([delays, age, lookback[row][:, None] / DAY / 30], 1)).relu()
        n = len(lookback)
        count = torch.bincount(row, minlength=n).clamp(min=1)[:, None]
        return self.out(torch.cat([torch.zeros(n, 32).index_add(0, row, told) / count, count.log()], 1))[:, 0]


def area(score, y):
    each, place, count = score.double().unique(return_inverse=True, return_counts=True)
    rank = (count.cumsum(0) - (count - 1) / 2)[place]
    true = int(y.sum())
    return float((rank[y > 0].sum() - true * (true + 1) / 2) / (true * (len(y) - true)))


def learn(path, task, lookbacks, seed, epochs=4):
    torch.manual_seed(seed)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for split in ["train"] * epochs + ["test"]:
        with load(path, task, split, batch_size=512, shuffle=True, seed=seed) as loader, \
                torch.set_grad_enabled(split == "train"):
            seen = []
            for batch in loader:
                y = batch.label.float()
                score = model(batch, lookbacks[split][batch["planes"].input_id])
                seen.append((score.detach(), y.clone()))
                if split == "train":
                    loss = F.binary_cross_entropy_with_logits(score, y)
                    optimizer.zero_grad(), loss.backward(), optimizer.step()
    return area(*map(torch.cat, zip(*seen)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder, path = pathlib.Path(scratch) / "flights", os.path.join(scratch, "flights.khop")
        shutil.copytree(args.folder, folder, copy_function=shutil.copyfile)
        for below in [folder, *folder.rglob("*")]:
            below.chmod(0o755)
        subprocess.run([os.environ["KHOP_BIN"], "convert", folder, path], check=True, capture_output=True)
        rng, lookbacks, shares = np.random.default_rng(1), {}, {}
        for split, (plane, time, late, row, at, delay) in rows(path):
            own = torch.from_numpy(rng.integers(3, 61, len(plane)) * DAY)
            seen = (at >= (time - own)[row]) & ~delay.isnan()
            count = torch.bincount(row[seen], minlength=len(plane))
            was = torch.zeros(len(plane)).index_add(0, row[seen], delay[seen]) / count.clamp(min=1) > 15
            kept = count > 0
            for task, label, lookback, which in (
                    ("was", was.int(), own, kept), ("was_without", was.int(), None, kept),
                    ("will_7", late, torch.full_like(own, 7 * DAY), kept | True),
                    ("will_30", late, torch.full_like(own, 30 * DAY), kept | True),
                    ("will_without", late, None, kept | True)):
                write(folder, task, split, plane[which], time[which], label[which],
                      None if lookback is None else lookback[which])
                given = own if lookback is None and task[:3] == "was" else lookback
                lookbacks.setdefault(task, {})[split] = (torch.zeros_like(own) if given is None else given)[which]
        subprocess.run([os.environ["KHOP_BIN"], "convert", folder, path, "--force"], check=True, capture_output=True)
        for task in lookbacks:
            reached = [learn(path, task, lookbacks[task], seed) for seed in range(args.seeds)]
            print(f"{task}: {np.mean(reached):.3f} ({min(reached):.3f} to {max(reached):.3f})", flush=True)


if __name__ == "__main__":
    main()
