"""What "make bench-feed" compares with: a torch DataLoader whose one worker sends the same CPU tensors over and over.

    torch_loader.py STRATEGY BATCHES      STRATEGY: file_descriptor or file_system

The kindest case: the tensors are made once, lie in shared memory after the first batch, and are five of 8 MB in all, as
large as khop's batches. Prints batches, seconds and bytes a batch, as JSON.
"""
import json
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset

BYTES = 8 << 20
TENSORS = 5
WARMUP = 50


class Same(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        batch = {f"t{i}": torch.ones(BYTES // TENSORS // 4) for i in range(TENSORS)}
        for _ in range(self.count):
            yield batch


def main():
    strategy, count = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy(strategy)
    source = iter(DataLoader(Same(WARMUP + count), batch_size=None, num_workers=1))
    for _ in range(WARMUP):
        batch = next(source)
    began = time.perf_counter()
    for _ in range(count):
        batch = next(source)
    seconds = time.perf_counter() - began
    size = sum(t.numel() * t.element_size() for t in batch.values())
    print(json.dumps({"batches": count, "seconds": seconds, "bytes_per_batch": size}))


if __name__ == "__main__":
    main()
