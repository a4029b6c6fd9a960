"""Writes a khop dataset's graph, features and train seeds as .npy files, the same bytes in a form that every peer
loads.

    export.py DATASET OUT     OUT gets indptr.npy, indices.npy, x.npy, seeds.npy; nothing is done where they are
    DATASET's already
"""
import hashlib
import pathlib
import sys

import numpy as np
import pyarrow as pa


def column(path):
    """The only column of an Arrow IPC file of one record batch, as an array: a matrix where the column holds lists."""
    with pa.memory_map(str(path)) as source:
        values = pa.ipc.open_file(source).read_all().column(0).chunk(0)
        if pa.types.is_fixed_size_list(values.type):
            return values.flatten().to_numpy().reshape(-1, values.type.list_size)
        return values.to_numpy()


def main(dataset, out):
    dataset, out = pathlib.Path(dataset), pathlib.Path(out)
    digest = hashlib.sha256((dataset / "dataset.json").read_bytes()).hexdigest()
    stamp = out / "dataset.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return
    trains = sorted(dataset.glob("splits/*/train.arrow"))
    if not trains:
        sys.exit(f"{dataset}/splits: no train split to take seeds from")
    out.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    for name, path, dtype in (("indptr", dataset / "graph/indptr.arrow", np.int64),
                              ("indices", dataset / "graph/indices.arrow", np.int32),
                              ("x", dataset / "nodes/n0/feature.arrow", np.float32), ("seeds", trains[0], np.int64)):
        np.save(out / f"{name}.npy", column(path).astype(dtype, copy=False))
    stamp.write_text(digest)


main(*sys.argv[1:])
