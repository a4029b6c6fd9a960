"""Time, processor time and board energy of what a Python program does, and a dataset's columns as NumPy arrays."""
import json
import os
import pathlib
import time

import numpy as np


def _content(dataset):
    return json.loads((pathlib.Path(dataset) / "dataset.json").read_text())["content"]


def _mapped(dataset, part, dtype, shape=()):
    return np.memmap(pathlib.Path(dataset) / part["path"], dtype, "r", part["body_offset"], (part["rows"], *shape))


def column(dataset, owner, name):
    """A column of a khop dataset, mapped: its shape is [rows] or [rows, width]."""
    info = next(c for c in _content(dataset)["columns"] if c["owner"] == owner and c["name"] == name)
    return _mapped(dataset, info["parts"][0], info["dtype"], info["shape"])


def train_seeds(dataset):
    """The ids of the first split named train."""
    seeds = next(s for s in _content(dataset)["splits"] if s["name"] == "train")["sets"][0]
    return np.array(_mapped(dataset, seeds["parts"][0], seeds["dtype"])).astype(np.int64)


def processor_seconds():
    """Processor time so far of this process and all that it has started, ended ones included."""
    tick, family, times = os.sysconf("SC_CLK_TCK"), {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue  # it has ended meanwhile
            family[int(entry)] = int(fields[1])
            times[int(entry)] = sum(map(int, fields[11:15]))  # with those of children that it has waited for
    def ours(pid):
        while pid > 1 and pid != os.getpid():
            pid = family.get(pid, 0)
        return pid == os.getpid()
    return sum(t for pid, t in times.items() if ours(pid)) / tick


class Board:
    """The board's energy counter, by NVML; `missing` says why there is none."""

    def __init__(self, wanted=True):
        self.missing = None if wanted else "no CUDA device is in use"
        if not wanted:
            return
        try:
            import pynvml
            pynvml.nvmlInit()
            # NVML's numbers are not CUDA's: the name of the board is what both know it by.
            uuid = os.environ.get("KHOP_GPU_UUID")
            self.handle = (pynvml.nvmlDeviceGetHandleByUUID(uuid.encode()) if uuid
                           else pynvml.nvmlDeviceGetHandleByIndex(0))
            self.read = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3
            self.read()
        except Exception as error:  # no package, no library, no counter: each is a reason
            self.missing = f"{type(error).__name__}: {error}"

    def joules(self):
        return None if self.missing else self.read()


class Measurement:
    """Runs from its making to stop(). synchronize waits for the device."""

    def __init__(self, board, synchronize):
        synchronize()
        self.board, self.synchronize = board, synchronize
        self.joules, self.cpu, self.start = board.joules(), processor_seconds(), time.perf_counter()

    def stop(self, batches):
        self.synchronize()
        seconds, cpu, joules = time.perf_counter() - self.start, processor_seconds() - self.cpu, self.board.joules()
        return {"batches": batches, "seconds": seconds, "ms_per_batch": seconds / batches * 1e3,
                "cpu_ms_per_batch": cpu / batches * 1e3,
                "board_joules": None if joules is None else joules - self.joules,
                "board_joules_per_batch": None if joules is None else (joules - self.joules) / batches,
                "not_measured": {"board": self.board.missing} if self.board.missing else {}}
