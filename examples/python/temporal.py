"""A graph that grows: each seed sees what was there at its time. It needs NumPy alone: python temporal.py

Messages have times. A batch of recent messages as of a time has none that is later, and takes the latest first.
"""
import os
import tempfile

import numpy as np

import khop

rng = np.random.default_rng(5)
people, messages = 400, 8000
when = np.sort(rng.integers(0, 1_000_000, messages))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "mail.khop")
    khop.write(path, {"edge_index": rng.integers(0, people, (2, messages)), "num_nodes": people,
                      "edge_time": when, "x": rng.normal(size=(people, 8)).astype(np.float32)})
    latest, as_of = 0, 500_000
    with khop.Loader(path, [5, 5], batch_size=100, sampler="temporal", time="time", recent=True, as_of=as_of,
                     seeds="all", edge_columns=["time"], framework="numpy") as loader:
        count = 0
        for batch in loader:
            for i in range(2):
                times = batch.array(f"edge/{i}/node:edge:node/time")
                assert (times <= as_of).all()
                latest, count = max(latest, times.max(initial=0)), count + len(times)
    print(f"{count} edges, none later than {as_of}; the latest is of {latest}")
    assert count > 1000 and latest > 0.95 * as_of
