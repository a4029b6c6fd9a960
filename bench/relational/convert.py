"""A database of many rows converted within stated memory, beside DuckDB reading and sorting the same columns.

    python bench/relational/convert.py WORK [--rows 100000000] [--memory 2GB] [--rounds 1]

WORK gets the database (users, items, and orders of rows in the order of time, as Parquet), made by DuckDB once, and
what both write of it. khop converts it whole: keys, times, kinds of columns with statistics, and edges in both
directions. DuckDB reads the orders and writes them in the order of users and time, then in that of items and time,
which is what edges of both keys need. Both have --memory and all cores. It prints seconds, processor seconds and the
peak of resident memory. It needs duckdb and a khop program (KHOP_BIN).
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

KHOP = os.environ.get("KHOP_BIN", "khop")
MANIFEST = """name: orders
val_timestamp: '2030-01-01'
test_timestamp: '2031-01-01'
tables:
  users: {pkey: buyer, time_col: null, fkeys: {}}
  items: {pkey: product, time_col: null, fkeys: {}}
  orders: {pkey: null, time_col: moment, fkeys: {buyer: users, product: items}}
"""


def generate(db, rows):
    """Writes the database."""
    import duckdb

    db.mkdir(parents=True)
    (db / "manifest.yaml").write_text(MANIFEST)
    users, items = rows // 20, rows // 200
    at = duckdb.connect()
    at.execute("SET memory_limit='4GB'")
    for table, name, number in (("users", "buyer", users), ("items", "product", items)):
        at.execute(f"COPY (SELECT range AS {name}, (hash(range) % 997)::FLOAT AS size FROM range({number})) "
                   f"TO '{db / (table + '.parquet')}'")
    at.execute(
        f"COPY (SELECT (hash(range) % {users})::BIGINT AS buyer, "
        f"(pow((hash(range + 7) % 1000003) / 1000003.0, 3) * {items - 1})::BIGINT AS product, "
        "make_timestamp(1577836800000000 + range * 1000000) AS moment, "
        f"((hash(range + 3) % 10007) / 7)::FLOAT AS price, (hash(range + 5) % 9)::INTEGER AS channel "
        f"FROM range({rows})) TO '{db / 'orders.parquet'}'")


SORT = """
import duckdb, sys
db, out, memory = sys.argv[1:]
at = duckdb.connect()
at.execute(f"SET memory_limit='{memory}'")
at.execute(f"SET temp_directory='{out}.tmp'")
for key in ("buyer", "product"):
    at.execute(f"COPY (SELECT * FROM '{db}/orders.parquet' ORDER BY {key}, moment) TO '{out}-{key}.parquet'")
"""


def measured(command):
    """Seconds, processor seconds and peak of resident memory of a command."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command}: {said.decode()}")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    db = args.work / f"orders-{args.rows}"
    if not db.exists():
        generate(db, args.rows)
    ways = {
        "khop convert": [KHOP, "convert", db, args.work / "out.khop", f"--max-memory={args.memory}", "--force"],
        "DuckDB, two sorts": [sys.executable, "-c", SORT, db, args.work / "sorted", args.memory],
    }
    seen = {name: [] for name in ways}
    for _ in range(args.rounds):
        for name, command in ways.items():
            seen[name].append(measured(list(map(str, command))))
            shutil.rmtree(args.work / "out.khop", ignore_errors=True)
            for left in args.work.glob("sorted*"):
                shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
    size = sum(f.stat().st_size for f in db.iterdir() if f.is_file())
    print(f"{args.rows:,} rows, {size / 1e9:.1f} GB of Parquet, memory {args.memory}, {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")
    print("| | seconds | processor seconds | peak of resident memory |\n|---|---|---|---|")
    for name, took in seen.items():
        wall, used, peak = zip(*took)
        print(f"| {name} | {statistics.median(wall):,.1f} ({min(wall):,.1f}-{max(wall):,.1f}) | "
              f"{statistics.median(used):,.1f} | {max(peak) / 1e9:.2f} GB |")


if __name__ == "__main__":
    sys.exit(main())
