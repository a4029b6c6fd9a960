"""Features larger than the memory that khop may take: rows are read from disk ahead of the batches that need them.

It needs NumPy alone: python larger.py. The features have 128 MB, and khop may take 110 MB in all.
"""
import os
import subprocess
import tempfile

import khop
from khop.binary import find

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "large.khop")
    made = [find(), "generate", "sbm", path, "--nodes", "250000", "--edges", "500000", "--features", "128"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    size = 250_000 * 128 * 4
    with khop.Loader(path, [5, 3], batch_size=32, shuffle=True, seed=1, framework="numpy", residence="disk",
                     lookahead=16, max_memory="110MB", seeds="all") as loader:
        rows = 0
        for i, batch in enumerate(loader):
            rows += len(batch.x)
            if i == 99:
                break
    print(f"{rows} rows of {size / 1e6:.0f} MB of features came within 110 MB; 20,000 were wanted")
    assert rows > 20_000
