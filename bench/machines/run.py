#!/usr/bin/env python3
"""DDP on two hosts that are network namespaces, 1 Gbit/s and 1 ms apart, each with a replica and one processor:

    make bench-machines ARGS="--dataset GRAPH.khop"      (root; PYTHON= has torch and xxhash)

Prints a table: what each world took, what went over the wire, and whether digests are those of khop sample.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

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


def train(args, world):
    """What rank 0 says of a world of one host, or of both."""
    ranks = []
    for rank, host in enumerate(list(HOSTS)[:world]):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
               "MASTER_ADDR": HOSTS["kh-a"], "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "wire"}
        command = ["ip", "netns", "exec", host, "taskset", "-c", str(rank % os.cpu_count()), sys.executable,
                   os.path.join(HERE, "ddp.py"), args.dataset, str(args.epochs), str(args.hidden)]
        ranks.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    said = [p.communicate()[0] for p in ranks]
    if any(p.returncode for p in ranks):
        sys.exit("a rank failed: see above")
    return json.loads(said[0].splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--wire", required=True, help="the program bench/machines/wire")
    parser.add_argument("--khop", default=os.environ.get("KHOP_BIN", "khop"))
    parser.add_argument("--epochs", type=int, default=3, help="timed epochs a run")
    parser.add_argument("--rounds", type=int, default=2, help="runs of each world, which take turns")
    parser.add_argument("--hidden", type=int, default=256)
    args = parser.parse_args()
    text = subprocess.run([args.khop, "sample", args.dataset, "--fanouts", "10,5", "--batch-size", "512", "--shuffle",
                           "--rank", "0", "--digest"], check=True, capture_output=True, text=True).stdout
    want = [line.split()[2] for line in text.splitlines()]
    lines = {"1 host": (1, 1000), "2 hosts, 1 Gbit/s, 1 ms": (2, 1000), "2 hosts, 100 Gbit/s, 1 ms": (2, 100_000)}
    found = {name: [] for name in lines}
    for _ in range(args.rounds):
        for name, (world, rate) in lines.items():
            with Wire(args.wire, rate, "1ms"):
                found[name].append(train(args, world))
    print("| | seconds an epoch | steps | processor s of rank 0 | sent by rank 0, MB | digests |")
    print("|---|---|---|---|---|---|")
    for name, runs in found.items():
        epochs = [e for run in runs for e in run["epochs"]]
        same = all(run["digests"] == want for run in runs)
        middle = {key: statistics.median(e[key] for e in epochs) for key in ("seconds", "cpu", "sent")}
        print(f"| {name} | {middle['seconds']:.2f} | {epochs[0]['steps']} | {middle['cpu']:.2f} | "
              f"{middle['sent'] / 1e6:.1f} | {'same' if same else 'DIFFERENT'} |")
    print(f"\n{runs[0]['parameters']} parameters; loss of the last epochs:",
          ", ".join(f"{run['epochs'][-1]['loss']:.3f}" for runs in found.values() for run in runs))


if __name__ == "__main__":
    main()
