"""Features larger than the memory that they may take: rows are read from disk ahead of the batches that need them.

It needs NumPy alone: python larger.py. The features have 64 MB, and rows of 16 MB stay in memory.
"""
import os
import subprocess
import tempfile

import khop
from khop.binary import find

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "large.khop")
    made = [find(), "generate", "sbm", path, "--nodes", "125000", "--edges", "500000", "--features", "128"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with khop.Loader(path, [5, 3], batch_size=32, shuffle=True, seed=1, framework="numpy", residence="disk",
                     cache_bytes="16MB", seeds="all") as loader:
        rows = 0
        for i, batch in enumerate(loader):
            rows += len(batch.x)
            if i == 99:
                break
    print(f"{rows} rows of 64 MB of features came by way of 16 MB; 20,000 were wanted")
    assert rows > 20_000
