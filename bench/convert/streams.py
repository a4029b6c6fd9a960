#!/usr/bin/env python3
"""Measures khop.write of a table that DuckDB streams, beside pyarrow writing the same stream as Parquet, in turns.

    streams.py --rows 50000000 --memory 256MB --rounds 3

Edges with a weight and a time, between 5,000,000 nodes. Memory is anonymous memory at most of this process' child and
of what it starts, polled: DuckDB's (one thread, 200 MB) is in it. Python needs duckdb, NumPy and pyarrow; KHOP_LIBRARY
and KHOP_BIN name the library and the program. Everything lies in --folder, and is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

STREAM = """
import sys, time, duckdb
out, rows, memory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
con = duckdb.connect()
con.sql("set threads=1"); con.sql("set memory_limit='200MB'")
table = con.sql(f"select (hash(range) % 5000000)::bigint as src, (hash(range + {rows}) % 5000000)::bigint as dst, "
                f"((range % 1000) / 1000)::float as weight, 1600000000 + range as time from range({rows})")
begin = time.perf_counter()
"""
WAYS = {
    "khop.write": STREAM + "import khop\nkhop.write(out, table, max_memory=memory)\n",
    "of it the stream to a file": STREAM + "from khop._native import streams\nstreams.write(table, out)\n",
    "pyarrow to Parquet": STREAM + """import pyarrow.parquet
reader = table.to_arrow_reader(1 << 20)
with pyarrow.parquet.ParquetWriter(out, reader.schema) as file:
    for batch in reader:
        file.write_batch(batch)
""",
}
END = "print(time.perf_counter() - begin)\n"


def anonymous(process: int) -> int:
    """Anonymous memory of a process and of those that it started, in bytes."""
    found = 0
    try:
        with open(f"/proc/{process}/status") as f:
            found = sum(1024 * int(line.split()[1]) for line in f if line.startswith(("RssAnon", "RssShmem")))
        for task in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{task}/children") as f:
                found += sum(map(anonymous, map(int, f.read().split())))
    except OSError:  # it has ended
        pass
    return found


def run(code: str, folder: str, options: argparse.Namespace) -> tuple[float, int, int]:
    """Seconds, memory at most, and bytes of what was written."""
    out = os.path.join(folder, "out")
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code + END, out, str(options.rows), options.memory],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "integrations/python/src")})
    most = 0
    while process.poll() is None:
        most = max(most, anonymous(process.pid))
        time.sleep(.02)
    if process.returncode:
        sys.exit(f"the child has ended with {process.returncode}")
    assert process.stdout is not None
    seconds = float(process.stdout.read().split()[-1])  # behind the progress that DuckDB shows
    files = [out] if os.path.isfile(out) else [os.path.join(d, f) for d, _, names in os.walk(out) for f in names]
    size = sum(map(os.path.getsize, files))
    shutil.rmtree(out) if os.path.isdir(out) else os.remove(out)
    return seconds, most, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--memory", default="256MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="streams-", dir=options.folder)
    results: dict[str, list[tuple[float, int, int]]] = {name: [] for name in WAYS}
    try:
        for _ in range(options.rounds):
            for name, code in WAYS.items():
                results[name].append(run(code, folder, options))
    finally:
        shutil.rmtree(folder)
    parquet = [r[0] for r in results["pyarrow to Parquet"]]
    print("| | million rows/s, median (least to most) | memory at most | written | time by that of Parquet, in turns |")
    print("|---|---:|---:|---:|---:|")
    for name, rounds in results.items():
        speed = sorted(options.rows / r[0] / 1e6 for r in rounds)
        ratio = sorted(r[0] / p for r, p in zip(rounds, parquet))
        print(f"| {name} | {statistics.median(speed):.2f} ({speed[0]:.2f} to {speed[-1]:.2f}) | "
              f"{max(r[1] for r in rounds) / 1e6:.0f} MB | {rounds[0][2] / 1e9:.2f} GB | "
              f"{statistics.median(ratio):.2f} ({ratio[0]:.2f} to {ratio[-1]:.2f}) |")


if __name__ == "__main__":
    main()
