#!/usr/bin/env python3
"""Says what columns on disk are asked for, by order of nodes, type of rows, and with packing or without: the counts of
`khop bench --residence disk`, which hardly depend on what else the machine does. Beside them the seconds for which a
disk of 60,000 requests and 1.2 GB a second is busy.

    bench/disk/orders.py NAME SOURCE ORDER... [--kinds float32 int8] [--json FILE --commit COMMIT]

SOURCE is an .npz file that `khop convert` reads, with rows of 100 float32 beside it in SOURCE.npy. Each dataset is made
in a temporary folder ($TMPDIR), and removed. With --json the lines go behind those that the file has already.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

# Options of a type, bytes of a stored row, and those of them that are no padding.
KINDS = {"float32": ([], 400, 400), "padded": (["--row-stride", "512"], 512, 400),
         "float16": (["--feature-dtype", "float16"], 200, 200), "int8": (["--feature-dtype", "int8"], 100, 100),
         "int4": (["--feature-dtype", "int4"], 64, 58)}


def call(*command):
    return subprocess.run([str(c) for c in command], check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def counts(args, dataset, kind, pack):
    """What a batch asks of the disk. Zeros that pad rows are not counted as useful."""
    _, row, own = KINDS[kind]
    nodes = json.loads(call(args.khop, "info", dataset, "--json"))["nodes"]
    got = json.loads(call(args.khop, "bench", dataset, "--frontier", "all", "--seeds", "all", "--shuffle",
                          "--residence", "disk", "--cache-bytes", int(nodes * row * args.cache), "--lookahead", 256,
                          "--workers", 2, "--batches", args.batches, "--warmup", args.warmup, "--no-memcpy", "--json",
                          *pack))["on_disk"]
    of = lambda *keys: sum(got[key] for key in keys) / got["batches"]
    requests, moved = of("requests", "writes"), of("bytes", "written")
    return {"missed": round(got["misses"] / got["rows"], 4), "packed": round(got["packed"] / max(got["misses"], 1), 4),
            "requests": round(requests), "read": round(of("bytes")), "written": round(of("written")),
            "useful": round(own / row * got["useful"] / max(got["bytes"], 1), 4),
            "busy_ms": round(1e3 * (requests / 60e3 + moved / 1.2e9), 2), "gap": got["probe"]["gap"],
            "batches": got["batches"], "ahead": got["lookahead"]}


def line(x):
    """The line of a table."""
    cells = [x["graph"], x["order"], x["rows"]]
    for c in x["plain"], x["with_pack"]:
        cells += [f"{c['requests']:,}", f"{(c['read'] + c['written']) / 1e6:.1f}",
                  f"{100 * c['useful']:.0f} %", f"{c['busy_ms']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("source")
    parser.add_argument("orders", nargs="+")
    parser.add_argument("--khop", default="dist/khop")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--cache", type=float, default=0.1, help="of the column")
    parser.add_argument("--batches", default="120")
    parser.add_argument("--warmup", default="80")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--commit")
    args = parser.parse_args()
    print("| graph | order | rows | requests | MB | useful | busy, ms | requests, packed | MB | useful | busy, ms |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for order in args.orders:
        for kind in args.kinds:
            with tempfile.TemporaryDirectory() as folder:
                dataset = pathlib.Path(folder) / "x.khop"
                call(args.khop, "convert", args.source, dataset, "--features", args.source + ".npy", "--directed",
                     "--reorder", order, *KINDS[kind][0])
                x = {"graph": args.name, "order": order, "rows": kind, "commit": args.commit, "cache": args.cache,
                     "plain": counts(args, dataset, kind, []),
                     "with_pack": counts(args, dataset, kind, ["--pack", "4GB"])}
            print(line(x), flush=True)
            if args.json:
                all = json.loads(args.json.read_text()) if args.json.exists() else []
                args.json.write_text("[\n" + ",\n".join(json.dumps(y) for y in all + [x]) + "\n]\n")


main()
