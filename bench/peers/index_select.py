"""Row gather by torch.index_select(out=) and memcpy by copy_, in GB/s of rows delivered, on 4 KiB and on huge pages."""
import argparse
import json
import mmap
import os
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", help="taken for the number of rows; without it: --rows")
parser.add_argument("--rows", type=int, default=2_449_029, help="rows of the table")
parser.add_argument("--ids", type=int, default=200_000, help="rows gathered a batch, distinct, at random")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--batches", type=int, default=20)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--json", action="store_true")
args = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = str(args.threads)
import numpy as np
import torch

torch.set_num_threads(args.threads)


def matrix(rows, row_bytes, advice):
    """A float32 matrix of ones in memory of its own, so that the size of its pages is known."""
    memory = mmap.mmap(-1, rows * row_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(advice)
    result = torch.from_numpy(np.frombuffer(memory, np.float32).reshape(rows, row_bytes // 4))
    return result.fill_(1)


def speed(step, size):
    """Median, lowest and highest GB/s of `step`, which moves `size` bytes."""
    took = []
    for i in range(args.warmup + args.batches):
        start = time.perf_counter()
        step(i)
        took.append(time.perf_counter() - start)
    took = took[args.warmup:]
    return {"median": size / statistics.median(took) / 1e9, "min": size / max(took) / 1e9,
            "max": size / min(took) / 1e9}


rows = len(np.load(os.path.join(args.data, "indptr.npy"), mmap_mode="r")) - 1 if args.data else args.rows
ids = min(args.ids, rows)
rng = np.random.default_rng(0)
index = [torch.from_numpy(rng.permutation(rows)[:ids]) for _ in range(8)]
results = []
for row_bytes in (400, 512, 1024):
    for pages, advice in (("4 KiB", mmap.MADV_NOHUGEPAGE), ("huge", mmap.MADV_HUGEPAGE)):
        table, out, copy = (matrix(n, row_bytes, advice) for n in (rows, ids, ids))
        size = ids * row_bytes
        results.append({"row_bytes": row_bytes, "pages": pages,
                        "gather_gb_per_s": speed(lambda i: torch.index_select(table, 0, index[i % 8], out=out), size),
                        "memcpy_gb_per_s": speed(lambda i: copy.copy_(out), size)})
        del table, out, copy
print(json.dumps({"threads": args.threads, "rows": rows, "ids": ids, "versions": {"torch": torch.__version__},
                  "results": results}, indent=None if args.json else 1))
