#!/usr/bin/env python3
"""The contest: khop against its peers on one graph, the same seeds, fan-outs and thread counts, in interleaved rounds.

    bench/peers/setup.sh && python3 bench/peers/run.py

Writes docs/results/cpu.json, with every single measurement, docs/results/cpu.md, the tables, and the charts that
charts.py draws of the former. Before anything is written the sampled edges and nodes a hop are compared: a contestant
that differs by more than 1 % measured other work, and the run fails. Only the standard library is needed here; the
peers run in the environments that setup.sh made.
"""
import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

import charts
import report

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parents[1]
FANOUTS, BATCH_SIZE = (15, 10, 5), 1024
TOLERANCE = 0.01
BY_HAND = "\n<!-- From here on the page is written by hand"  # and by make bench-pyg
SLOW_WAY = 1.5  # a peer's way this much slower than its best is not run after the first round

# malloc keeps what it got: without this the peers spend half of their time on page faults.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(32 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}

# Name: (environment, script and its switches, frontier, share of --batches). PyG is slow, so it makes fewer.
PEERS = {
    "GraphBolt": ("dgl", ["graphbolt.py"], "all", 1),
    "DGL": ("dgl", ["dgl_classic.py"], "all", 1),
    "PyG": ("pyg", ["pyg.py"], "new", 1 / 6),
    "khop.pyg": ("pyg", ["pyg.py", "--khop"], "new", 1),
}
# Ways of khop: (name, options, frontier, order, type of the features). "resident" is what the peers do: the graph and
# the features in memory of the process. More are of the dataset in the order --order, and of narrow types, which are
# delivered as they are stored.
KHOP = [
    ("resident", ["--resident"], "all", "no", "float32"),
    ("mapped", [], "all", "no", "float32"),
    ("resident, new", ["--resident"], "new", "no", "float32"),
]
NARROW = ("float32", "float16", "int8", "int4")
# "float16" is features of that type, of the peers.
WORK = ("sampling", "features", "float16")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = pathlib.Path(os.environ.get("KHOP_BENCH_DIR", REPO / ".bench"))
    parser.add_argument("--dir", type=pathlib.Path, default=default,
                        help="environments and data (default $KHOP_BENCH_DIR)")
    parser.add_argument("--dataset", type=pathlib.Path,
                        help="default: products.khop in --dir, generated where it is missing")
    parser.add_argument("--khop", type=pathlib.Path, help="the program; default: built from this repository")
    parser.add_argument("--settings", default="1,2,2:last,1:all",
                        help="thread counts, by commas; with :last beside a neighbour on the last core, with :all "
                             "beside one on each, which copies 256 MB to and fro all the time")
    parser.add_argument("--add", action="store_true",
                        help="add to the measurements that are there: further settings, or rounds of the same; of the "
                             "same commit, machine and batches")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--order", default="degree", help="the order of nodes that is shown besides, none for none")
    parser.add_argument("--no-gather", action="store_true", help="leave out rows gathered by index_select alone")
    parser.add_argument("--peers", default=",".join(PEERS), help="which, by commas")
    parser.add_argument("--ways", help="of peers, by commas; default: all that they have")
    parser.add_argument("--note", help="what the page says of other load on the machine")
    parser.add_argument("--out", type=pathlib.Path, default=REPO / "docs" / "results",
                        help="folder for cpu.json and cpu.md")
    args = parser.parse_args()
    args.settings = [(int(threads), beside) for threads, _, beside in
                     (setting.partition(":") for setting in args.settings.split(","))]
    args.peers = args.peers.split(",") if args.peers else []
    name = f"resident, {args.order}"
    args.khop_ways = [way for way in KHOP if way[2] == "all" or "PyG" in args.peers]
    args.khop_ways += [(name if t == "float32" else f"{name}, {t}", ["--resident"], "all", args.order, t)
                       for t in NARROW if args.order != "none"]
    args.dir = args.dir.absolute()  # not resolved: an environment's python is a link
    args.khop, args.dataset = (path and path.absolute() for path in (args.khop, args.dataset))
    return args


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def environ(threads, args):
    one = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "DGLBACKEND": "pytorch"}
    khop = {"KHOP_BIN": str(args.khop), "KHOP_LIBRARY": str(args.library),
            "PYTHONPATH": str(REPO / "integrations" / "python" / "src")}
    return {**os.environ, **TUNED, **one, **khop}


class Peer:
    """A peer's process. It holds the graph and the features in its own memory from the first round to the last."""

    def __init__(self, name, args, data, threads):
        env, (script, *switches), self.frontier, share = PEERS[name]
        self.name, self.threads = name, threads
        batches = max(5, round(args.batches * share))
        command = [args.dir / env / "bin" / "python", HERE / script, *switches, "--data", data, "--threads", threads,
                   "--batches", batches, "--warmup", min(args.warmup, batches), "--json"]
        self.process = subprocess.Popen([str(c) for c in command], env=environ(threads, args), text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        hello = self.answer()
        self.versions, self.ways = hello["versions"], hello["ways"]
        if args.ways:
            self.ways = {what: [way for way in ways if way in args.ways.split(",")] for what, ways in self.ways.items()}

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: ended with status {self.process.wait()}; its last words are above")
        return json.loads(line)

    def run(self, what):
        """One measurement of each way that is still in the contest."""
        runs = []
        for way in self.ways.get(what, ()):
            self.process.stdin.write(f"run {what} {way}\n")
            self.process.stdin.flush()
            runs.append({"contestant": self.name, "frontier": self.frontier, "threads": self.threads, **self.answer()})
        if runs:
            limit = SLOW_WAY * min(run["ms"] for run in runs)
            self.ways[what] = [run["way"] for run in runs if run["ms"] <= limit]
        return runs

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Khop:
    """khop's own benchmark: a process a measurement, with as many processors as the peers have threads."""

    def __init__(self, args, threads):
        self.args, self.threads = args, threads

    def run(self, what):
        if what == "float16":  # of the peers alone: khop's narrow ways are among its features
            return []
        return [self.bench(what, *way) for way in self.args.khop_ways if what == "features" or way[-1] == "float32"]

    def bench(self, what, way, options, frontier, order, dtype):
        dataset, sizes = variant(self.args, order, dtype), ",".join(map(str, FANOUTS))
        command = [self.args.khop, "bench", dataset, "--fanouts", sizes, "--batch-size", BATCH_SIZE,
                   "--batches", self.args.batches, "--warmup", self.args.warmup, "--drop-last",
                   "--workers", self.threads, "--json", "--limit", "--frontier", frontier, *options]
        command += ["--no-features", "--no-memcpy"] if what == "sampling" else []
        got = json.loads(call(command, env={**os.environ, "GOMAXPROCS": str(self.threads)}))
        kept = ("ms_per_batch", "edges_per_hop", "edges_per_s", "rows_per_s", "gather_gb_per_s", "memcpy_gb_per_s",
                "anon_bytes",
                "file_bytes", "workers")
        return {"contestant": "khop", "what": what, "way": way, "frontier": frontier, "threads": self.threads,
                "ms": 1e3 / got["batches_per_s"], "batches": self.args.batches,
                "nodes_per_hop": got["nodes_per_hop"][-len(FANOUTS):],  # without the seeds, where they are counted
                "rows_per_batch": got["rows_per_batch"],  # with the labels of the seeds
                # of all threads together, where a stage of each worker is its own
                "limit_ms": (got["limit"]["sample_ms"] + got["limit"]["gather_ms"]) / got["workers"],
                **{key: got[key] for key in kept if key in got}}


def call(command, **options):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}")
    return done.stdout


def prepare(args):
    """Builds khop, generates and exports the graph where they are missing, and reads it all once into the page
    cache."""
    args.dir.mkdir(parents=True, exist_ok=True)
    if args.khop is None:
        args.khop = args.dir / "khop"
        call(["go", "build", "-o", args.khop, "./cmd/khop"], cwd=REPO)
    args.library = args.dir / "libkhop.so"
    if "khop.pyg" in args.peers:
        call([REPO / "tools" / "libkhop.sh", args.library], cwd=REPO)
    if args.dataset is None:
        args.dataset = args.dir / "products.khop"
        if not args.dataset.exists():
            say("generating products")
            call([args.khop, "generate", "products", args.dataset])
    make_variants(args)
    data = args.dir / (args.dataset.name + ".npy")
    say(f"exporting to {data}")
    call([args.dir / "pyg" / "bin" / "python", HERE / "export.py", args.dataset, data])
    for file in args.dataset.rglob("*.arrow"):  # what other programs read of it lies on small pages
        fd = os.open(file, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    call([args.khop, "bench", args.dataset, "--batches", 1, "--no-memcpy"])  # which reads the files ahead
    return data


def variant(args, order, dtype):
    """The dataset in an order, with features of a type."""
    plain = (order, dtype) == ("no", "float32")
    return args.dataset if plain else args.dir / f"{args.dataset.stem}.{order}.{dtype}.khop"


def make_variants(args):
    """Converts the dataset to each order and type that a way of khop wants, where they are missing."""
    missing = {way[3:] for way in args.khop_ways if not variant(args, *way[3:]).exists()}
    arrays = args.dir / "arrays"
    if missing:
        call([args.khop, "export", "--to", "numpy", "--force", args.dataset, arrays])
    for order, dtype in sorted(missing):
        say(f"converting to {order}, {dtype}")
        narrow = [] if dtype == "float32" else ["--feature-dtype", dtype]
        call([args.khop, "convert", arrays, variant(args, order, dtype), "--directed", "--reorder", order, *narrow])
    if missing:
        shutil.rmtree(arrays)


def deviations(runs):
    """What each run sampled, against the first run of khop with the same frontier: a list of complaints."""
    complaints = []
    for run in runs:
        like = next(r for r in runs if r["frontier"] == run["frontier"])
        name = f"{run['contestant']} ({run['way']}), {run['what']}, {run['threads']} threads"
        for key in ("edges_per_hop", "nodes_per_hop"):
            for hop, (got, want) in enumerate(zip(run[key], like[key], strict=True), 1):
                if abs(got - want) > TOLERANCE * want:
                    complaints.append(f"{name}: hop {hop}: {got:,.0f} {key.split('_')[0]}, but {want:,.0f} by "
                                      f"{like['contestant']}")
        rows = 0 if run["what"] == "sampling" else run["nodes_per_hop"][-1]
        if abs(run["rows_per_batch"] - rows) > TOLERANCE * rows:
            complaints.append(f"{name}: {run['rows_per_batch']:,.0f} feature rows for {rows:,.0f} nodes")
    return complaints


def contest(args, data, threads, first):
    """All rounds at one thread count, numbered from first on. Returns the runs and the peers' versions."""
    peers = [Peer(name, args, data, threads) for name in args.peers]
    contestants, runs = [Khop(args, threads), *peers], []
    for number in range(args.rounds):
        for what in WORK:
            for contestant in contestants[number % len(contestants):] + contestants[:number % len(contestants)]:
                for run in contestant.run(what):
                    runs.append({"round": first + number, **run})
                    say(f"{threads} threads, round {number + 1}/{args.rounds}: {what:8} {run['contestant']:9} "
                        f"{run['way']:13} "
                        f"{run['ms']:8.1f} ms")
    for peer in peers:
        peer.close()
    return runs, {peer.name: peer.versions for peer in peers}


# A neighbour copies 256 MB to and fro.
NEIGHBOUR = """
v = memoryview(bytearray(512 << 20))
half = len(v) // 2
while True:
    v[:half] = v[half:]
    v[half:] = v[:half]
"""


class Neighbours:
    """Processes that copy memory all the time: "last" on the last core, "all" on each, "" none."""

    def __init__(self, beside):
        cores = {"": [], "last": [os.cpu_count() - 1], "all": range(os.cpu_count())}[beside]
        self.processes = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", NEIGHBOUR])
                          for core in cores]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def machine():
    read = lambda path: pathlib.Path(path).read_text() if pathlib.Path(path).exists() else ""
    field = lambda path, key: next((l.split(":", 1)[1].strip() for l in read(path).splitlines() if l.startswith(key)),
                                   "unknown")
    return {"cpu": field("/proc/cpuinfo", "model name"), "cpus": os.cpu_count(),
            "virtual": " hypervisor " in field("/proc/cpuinfo", "flags") + " ",
            "memory_bytes": int(field("/proc/meminfo", "MemTotal").split()[0]) * 1024, "kernel": platform.release(),
            "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled").strip()}


def main():
    args, load = parse(), os.getloadavg()[0]
    data = prepare(args)
    result = {"date": time.strftime("%Y-%m-%d"), "machine": machine(), "load_before": load, "note": args.note,
              "peers_environment": TUNED,
              "commit": call(["git", "rev-parse", "HEAD"], cwd=REPO).strip(),
              "modified": bool(call(["git", "status", "--porcelain", "-uno", "--", "*.go", "*.s"], cwd=REPO)),
              "go": call(["go", "version"]).split()[2], "versions": {},
              "workload": {"dataset": args.dataset.name, "nodes": elements(data / "indptr.npy") - 1,
                           "edges": elements(data / "indices.npy"), "fanouts": FANOUTS, "batch_size": BATCH_SIZE,
                           "batches": args.batches, "warmup": args.warmup}, "settings": [], "runs": [],
              "index_select": []}
    if args.add:
        had = json.loads((args.out / "cpu.json").read_text())
        if any(had.get(key) != json.loads(json.dumps(result[key])) for key in ("commit", "machine", "go", "workload")):
            sys.exit(f"run.py: {args.out}/cpu.json is of another commit, machine or graph, or of other batches")
        result = had | {"modified": had["modified"] or result["modified"],
                        "load_before": max(had["load_before"], load)}
    for threads, beside in args.settings:
        measure(args, data, threads, beside, result)
    write(args, result)


def measure(args, data, threads, beside, result):
    setting = {"threads": threads, "beside": beside}
    before = [run for run in result["runs"] if run["setting"] == setting]
    if setting not in result["settings"]:
        result["settings"].append(setting)
    with Neighbours(beside):
        if not args.no_gather:
            say(f"index_select, {threads} threads")
            command = [args.dir / "dgl" / "bin" / "python", HERE / "index_select.py", "--data", data, "--threads",
                       threads, "--json"]
            plain = {k: v for k, v in environ(threads, args).items() if k not in TUNED}  # it brings its own memory
            result["index_select"].append(json.loads(call(command, env=plain)))
        runs, versions = contest(args, data, threads, 1 + max((run["round"] for run in before), default=-1))
    result["runs"] += [{"setting": setting, **run} for run in runs]
    result["versions"] |= versions


def write(args, result):
    complaints = deviations(sorted(result["runs"], key=lambda run: run["contestant"] != "khop"))
    if complaints:
        sys.exit("run.py: the contestants did different work; nothing was written\n  " + "\n  ".join(complaints))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "cpu.json").write_text(json.dumps(result, indent=1) + "\n")
    page = args.out / "cpu.md"
    by_hand = page.read_text().partition(BY_HAND)[1:] if page.exists() else ()
    page.write_text(report.markdown(result) + "".join(by_hand))
    try:
        charts.write(args.out)
    except LookupError as e:
        say(f"no charts: {e}")
    say(f"wrote {page}")


def elements(path):
    """The length of a one-dimensional .npy file, from its head."""
    with open(path, "rb") as f:
        head = f.read(256)
    return int(head[head.index(b"'shape': (") + 10:].split(b",")[0])


main()
