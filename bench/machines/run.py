#!/usr/bin/env python3
"""DDP on two hosts that are network namespaces, 1 Gbit/s and 1 ms apart, each with a replica and one processor:

    make bench-machines ARGS="--dataset GRAPH.khop"      (root; PYTHON= has torch and xxhash)

Prints a table: what each world took, what went over the wire, and whether digests are those of khop sample.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = {"kh-a": "10.9.0.1", "kh-b": "10.9.0.2"}


class Wire:
    """The two hosts, while there is one."""

    def __init__(self, program, rate, delay):
        names = [f"{name}={address}" for name, address in HOSTS.items()]
        self.process = subprocess.Popen([program, "-rate", str(rate), "-delay", delay, *names],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            sys.exit("there is no wire: see above")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def store(args):
    """The store, on the first host: what the second brings goes over the wire. Caches are empty, one a host."""
    server = subprocess.Popen(["ip", "netns", "exec", "kh-a", "sh", "-c", "exec " + args.store])
    with tempfile.TemporaryDirectory() as caches:
        try:
            yield caches
        finally:
            server.terminate()
            server.wait()


@contextlib.contextmanager
def rows(args):
    """Servers of rows, each of a half of the ids, one a host. Yields their address."""
    servers = [subprocess.Popen(["ip", "netns", "exec", host, args.rows, args.dataset, "--listen", f"{at}:8815",
                                 "--part", f"{part}/2"], stdout=subprocess.PIPE, text=True)
               for part, (host, at) in enumerate(HOSTS.items())]
    try:
        for server in servers:
            server.stdout.readline()
        yield "grpc://" + ",".join(f"{at}:8815" for at in HOSTS.values())
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def train(args, world, dataset, caches=None, **options):
    """What rank 0 says of a world of one host, or of both."""
    ranks = []
    for rank, host in enumerate(list(HOSTS)[:world]):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": HOSTS["kh-a"], "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "wire",
               "KHOP_LOADER_OPTIONS": json.dumps(options)}
        if "rows_from" in options:
            env["KHOP_ROWS"] = args.rows
        if caches:
            env |= {"AWS_ENDPOINT_URL": f"http://{HOSTS['kh-a']}:7070", "KHOP_CACHE_DIR": f"{caches}/{host}"}
        command = ["ip", "netns", "exec", host, "taskset", "-c", str(rank % os.cpu_count()), sys.executable,
                   os.path.join(HERE, "ddp.py"), dataset, str(args.epochs), str(args.hidden)]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    said = [p.communicate()[0] for p in ranks]
    if any(p.returncode for p in ranks):
        sys.exit("a rank failed: see above")
    return json.loads(said[0].splitlines()[-1])


def rows_bytes(args):
    """Bytes of the rows."""
    info = json.loads(subprocess.run([args.khop, "info", args.dataset, "--json"], check=True, capture_output=True,
                                     text=True).stdout)
    return 4 * info["feature_dim"] * info["nodes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--wire", required=True, help="the program bench/machines/wire")
    parser.add_argument("--khop", default=os.environ.get("KHOP_BIN", "khop"))
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs a run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each world, which take turns")
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--staged", help="the same dataset in a store, s3://..; its credentials are in the environment")
    parser.add_argument("--store", help="what serves that, as a line of a shell: at port 7070 of all addresses")
    parser.add_argument("--rows", help="the program khop-rows, for rows by Flight")
    args = parser.parse_args()
    text = subprocess.run([args.khop, "sample", args.dataset, "--fanouts", "10,5", "--batch-size", "512", "--shuffle",
                           "--rank", "0", "--digest"], check=True, capture_output=True, text=True).stdout
    want = [line.split()[2] for line in text.splitlines()]
    near, far = "2 hosts, 1 Gbit/s, 1 ms", "2 hosts, staged over the line"
    lines = {"1 host": (1, 1000), near: (2, 1000), "2 hosts, 100 Gbit/s, 1 ms": (2, 100_000)}
    if args.staged:
        lines[far] = lines[near]
    kept = {}
    if args.rows:
        for share in (10, 100):
            name = f"{near}, rows by Flight, {share} % kept"
            lines[name], kept[name] = lines[near], rows_bytes(args) * share // 100
    found = {name: [] for name in lines}
    for _ in range(args.rounds):
        for name, (world, rate) in lines.items():
            with Wire(args.wire, rate, "1ms"):
                if name in kept:
                    with rows(args) as at:
                        found[name].append(train(args, world, args.dataset, rows_from=at, cache_bytes=kept[name]))
                    continue
                if name != far:
                    found[name].append(train(args, world, args.dataset))
                    continue
                with store(args) as caches:
                    found[name].append(train(args, world, args.staged, caches))
    print("| | until the first epoch, s | sent until then, MB | seconds an epoch | steps | processor s of rank 0 "
          "| sent by rank 0, MB | digests |\n|---|---|---|---|---|---|---|---|")
    for name, runs in found.items():
        epochs = [e for run in runs for e in run["epochs"]]
        same = all(run["digests"] == want for run in runs)
        middle = {key: statistics.median(e[key] for e in epochs) for key in ("seconds", "cpu", "sent")}
        begun, before = (statistics.median(run["before"][key] for run in runs) for key in ("seconds", "sent"))
        print(f"| {name} | {begun:.2f} | {before / 1e6:.1f} | {middle['seconds']:.2f} | {epochs[0]['steps']} | "
              f"{middle['cpu']:.2f} | {middle['sent'] / 1e6:.1f} | {'same' if same else 'DIFFERENT'} |")
    print(f"\n{runs[0]['parameters']} parameters; loss of the last epochs:",
          ", ".join(f"{run['epochs'][-1]['loss']:.3f}" for runs in found.values() for run in runs))


if __name__ == "__main__":
    main()
