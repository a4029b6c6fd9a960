"""The Python consumer of "make bench-feed": how fast batches come from a server, as tensors that a training loop could
use.

    consume.py SOCKET BATCHES

Prints batches, seconds and bytes a batch, as JSON. Every batch's features, labels and ids are made into arrays, as a
training loop has to; nothing reads their elements.
"""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "integrations", "python", "src"))

import khop  # noqa: E402

WARMUP = 200


def batches(feed):
    while True:
        yield from feed


def main():
    socket, count = sys.argv[1], int(sys.argv[2])
    feed = khop.connect(socket, framework=os.environ.get("KHOP_BENCH_FRAMEWORK", "numpy"))
    source = batches(feed)
    size = 0
    for i in range(WARMUP):
        batch = next(source)
        size += sum(batch._arrays().numpy(name)[0].nbytes for name in batch.names())
    columns = "node/node/feature" in batch  # batches of one seed have none
    began = time.perf_counter()
    for i in range(count):
        batch = next(source)
        if columns:
            batch.x, batch.y
        batch.n_id
        for block in batch.blocks:
            block.indptr, block.indices
    seconds = time.perf_counter() - began
    print(json.dumps({"batches": count, "seconds": seconds, "bytes_per_batch": size / WARMUP}))


if __name__ == "__main__":
    main()
