"""The phases: each yields its steps. A step's work returns what is kept; names do not change between runs."""
import json
import os
import re
import shutil
from typing import Callable, NamedTuple

import model
from bench import Failed

GIB = 1 << 30
WIDTHS = "4,8,16,32,64,128,132,256,400,512,516,1024,2048,2052,4096,4100"
ALIGNMENTS = ",".join(str(w) for w in range(2048, 2077, 4))
CARD = "8GiB"  # device memory, wherever the claim is about what is larger than the card
WORKERS = (15, 8)  # of PyG's NeighborLoader, the likeliest best first
FEWER = (4, 0)

# What is worth the time of a machine first. No claim needs MORE, which --more runs.
CLAIM, TESTS, PEER, SPEED, SLOW, MORE = range(6)
# Seconds, by guess, on a machine with an H100 and 16 threads: to generate the graph as products; to start khop on it,
# khop on a small graph, and torch.
GENERATE, START, LITTLE, TORCH = 60, 6, 3, 25


class Step(NamedTuple):
    name: str
    work: Callable[[], dict]
    worth: int = MORE
    seconds: float = 150  # after which it has failed: something hangs
    guess: float = 10     # of the seconds that it takes (model.py)


class Shared:
    """Steps of a phase that one start of a script makes, one after the other: the first that runs makes the others
    that are wanted, too. After one that breaks the script, it is started again."""

    def __init__(self, b, phase, run, names):
        self.b, self.phase, self.run, self.names, self.found = b, phase, run, names, {}

    def step(self, name):
        if name not in self.found:
            rest = [n for n in self.names[self.names.index(name):]
                    if n == name or self.b.todo is None or (self.phase, n) in self.b.todo]
            try:
                found = self.run(*rest)
            except Failed as error:
                found = {**error.partial}
                broken = next(n for n in rest if n not in found)
                found[broken] = {"failed": str(error)}
            self.found.update(dict.fromkeys(rest, found) if "skipped" in found else found)
        return self.found.pop(name)


def machine(b):
    """(a) What the machine has, the tests on its driver, and batches equal to the CPU's."""
    yield Step("doctor", lambda: b.json([b.khop, "doctor", b.dataset(), "--json"]), CLAIM, guess=GENERATE + START)
    for i, (kind, options) in enumerate(SAME[:2] if b.smoke else SAME):
        first = kind not in {k for k, _ in SAME[:i]} | {"products"}  # its graph is generated
        yield Step(" ".join(["same", kind, *options]), lambda kind=kind, options=options: same(b, kind, options),
                   CLAIM if i < 4 else TESTS, guess=1 + (START if kind == "products" else LITTLE) + 10 * first)
    for folder, names in b.tests:
        if b.smoke and folder != "internal/drivertest":
            continue
        yield Step(f"tests {folder}", lambda folder=folder, names=names: run_tests(b, folder, names), TESTS,
                   seconds=400, guess=12)
    for tool in ("memcheck", "racecheck"):
        yield Step(tool, lambda tool=tool: sanitize(b, tool), SLOW, guess=45)


def run_tests(b, folder, names):
    place = b.programs / folder
    env = {"KHOP_TESTDATA": ""}
    status, out, errors = b.call([place / "test", "-test.v", "-test.run", names, "-test.timeout", "390s"], cwd=place,
                                 env=env, allowed=(0, 1, 2))
    count = {what: re.findall(rf"^--- {what}: (\S+)", out, re.M) for what in ("PASS", "FAIL", "SKIP")}
    few = {test for test in count["SKIP"] if re.search(rf"^--- SKIP: {test} .*\n.*needs \d+ devices", out, re.M)}
    result = {"passed": len(count["PASS"]), "skipped": sorted(few)}  # for want of a second device
    if skipped := sorted(set(count["SKIP"]) - few):  # what needs the simulator is not in the bundle
        result["failed"] = f"skipped on a real driver: {', '.join(skipped)}"
    if status or count["FAIL"]:
        result["failed"] = f"{', '.join(count['FAIL']) or 'the program ended'}: {(out + errors)[-2000:]}"
    return result


ALL = ("--frontier", "all")  # the nodes that DGL and GraphBolt expand
SMALL = (*ALL, "--fanouts", "5,3", "--batch-size", "64", "--batches", "4", "--shuffle")
SAME = [
    ("products", SMALL),
    ("typed", SMALL),
    ("products", (*ALL, "--fanouts", "15,10,5", "--batches", "3")),
    ("products", ("--fanouts", "15,10,5", "--batches", "3", "--frontier", "new", "--device-cache", "0")),
    ("products", (*ALL, "--fanouts", "15,10,5", "--batches", "3", "--replace", "--device-cache", "200MB")),
    ("products",
     (*ALL, "--fanouts", "15,10,5", "--batches", "3", "--device-cache", "700MB", "--hot-rows", "presample")),
    ("typed", (*ALL, "--fanouts", "-1,4", "--batches", "3", "--device-cache", "0")),
    ("rmat", (*ALL, "--fanouts", "20,20", "--batches", "3", "--shuffle", "--seed", "7")),
    ("sbm", ("--fanouts", "10,10,10", "--batches", "3", "--replace", "--frontier", "new")),
]

# Every sampler that devices have beside Neighbor, with options that suit a graph of any size.
SAMPLERS = {
    "labor": ("--fanouts", "15,10,5"), "fastgcn": ("--layer-nodes", "4000,4000"),
    "ladies": ("--layer-nodes", "4000,4000"), "hgt": (), "walk": ("--length", "20"),
    "node2vec": ("--length", "20", "--p", "0.5", "--q", "2"), "pinsage": ("--length", "3"),
    "shadow": ("--fanouts", "10,5"), "induced": (), "saint-node": ("--coverage", "0"),
    "saint-edge": ("--coverage", "0"), "saint-walk": ("--coverage", "0"), "cluster": (),
}
OF_SEEDS = [s for s in SAMPLERS if not s.startswith("saint") and s != "cluster"]
SAME += [("typed", ("--together", "--fanouts", "10,5", "--batches", "3")),
         ("products", ("--seeds", "all-edges", "--negatives", "uniform", "--strict", "--exclude-seeds", "seeds",
                       "--batches", "3"))]
SAME += [("typed" if sampler in ("labor", "hgt") else "sbm", ("--sampler", sampler, *options, "--batches", "3"))
         for sampler, options in SAMPLERS.items()]


def same(b, kind, options):
    """The digests of batches that the device makes are those of the CPU's."""
    dataset = b.dataset(kind, *(("--nodes", "2000") if b.smoke and kind != "products" else ()))
    seeds = () if {*options} & ({*SAMPLERS} - {*OF_SEEDS} | {"--seeds"}) else ("--seeds", "all")
    device = [o for o in options]
    cpu, skip = [], False
    for o in options:  # options of the device alone
        skip, take = o in ("--device-cache", "--hot-rows"), not skip and o not in ("--device-cache", "--hot-rows")
        if take:
            cpu.append(o)
    digests = b.both(*([b.khop, "sample", dataset, *seeds, "--digest", "--device", name, *more]
                       for name, more in (("cpu", cpu), ("cuda", device))))
    if not digests[0].strip() or digests[0] != digests[1]:
        return {"failed": f"the device's digests are\n{digests[1]}the CPU's are\n{digests[0]}"}
    return {"batches": len(digests[0].splitlines()), "digests": [line.split()[-1] for line in digests[0].splitlines()]}


def sanitize(b, tool):
    program = shutil.which("compute-sanitizer")
    if not program:
        return {"skipped": "compute-sanitizer is not installed here"}
    dataset = b.dataset("products", *(() if b.smoke else ("--nodes", "3000")))
    # Calls that the driver refuses are part of how khop finds the best way: it asks, and takes the next. Digests and
    # tests see to the rest.
    refusals = ("--report-api-errors", "no") if tool == "memcheck" else ()
    status, out, errors = b.call([program, "--tool", tool, *refusals, "--error-exitcode", "99", b.khop, "sample",
                                  dataset, "--digest", "--device", "cuda", *SMALL],
                                 allowed=(0, 1, 99, 255))
    summary = [line for line in (out + errors).splitlines() if line.startswith("=========")][-5:]
    if "not supported" in (out + errors).lower():
        return {"skipped": "compute-sanitizer does not know this device", "summary": summary}
    return {"summary": summary} if status == 0 else {"failed": f"status {status}", "summary": summary}


def gather(b):
    """(b) Row gather over the bus: widths, alignments, footprints, pages, beside the model and the copy engine."""
    def rows(size, *options, widths=WIDTHS, offsets="0", file=None):
        command = [b.gpubench, "rows", "-bytes", size, "-widths", widths, "-offsets", offsets, *options]
        if b.smoke:
            command += ["-bytes", "256K", "-widths", widths.split(",")[-1], "-reads", "16K", "-reps", "1"]
        if file:
            command += ["-file", b.dir / file]
        try:
            return b.json(command)
        finally:
            if file and size > 8 * GIB:  # its pages are wanted for others
                (b.dir / file).unlink(missing_ok=True)

    def chosen():
        """What a loader chooses for the features, where all of them are read over the bus."""
        size = ("--batches", "2", "--warmup", "1", "--batch-size", "16", "--fanouts",
                "3,2") if b.smoke else ("--batches", "100")
        r = b.json([b.khop, "bench", b.dataset(), "--json", "--no-memcpy", "--device", "cuda:0", "--device-cache", "0",
                    "--host-pages", "measured", *size])
        return {"placed": r["placed"], "ms_per_batch": r["ms_per_batch"]["median"]}

    yield Step("file 1 GiB", lambda: rows(GIB, file="rows-1"), CLAIM, guess=20)
    yield Step("alignments", lambda: rows(GIB, widths=ALIGNMENTS, file="rows-1"))
    yield Step("offsets", lambda: rows(GIB, widths="128,400,512,2048", offsets="0,4,16,32,64,100", file="rows-1"))
    yield Step("grids", lambda: rows(GIB, "-blocks", "20,40,80,160,320", widths="128,400,512,2048", file="rows-1"))
    yield Step("ragged rows", lambda: rows(GIB, "-blocks", "40,80,160", widths="129,402,513,2050", file="rows-1"))
    for pages in ("small", "huge"):
        yield Step(f"anonymous 1 GiB, {pages} pages", lambda pages=pages: rows(GIB, "-pages", pages))
    # Whole columns on a file's own pages and on huge ones: what --host-pages measured chooses between. More than the
    # tables of pages hold.
    yield Step("file 8 GiB", lambda: rows(8 * GIB, file="rows-8"), CLAIM, guess=30)
    yield Step("file 8 GiB, copied", lambda: rows(8 * GIB, "-copy", file="rows-8"), CLAIM, guess=30)
    yield Step("chosen pages", chosen)
    for pages in ("huge", "small"):
        yield Step(f"anonymous 64 GiB, {pages} pages", lambda pages=pages: rows(64 * GIB, "-pages", pages), seconds=240)
    yield Step("file 32 GiB", lambda: rows(32 * GIB, file="rows-32"), seconds=240)


def sampling(b):
    """(c) Sampling with the topology on the card and over the bus, beside a kernel that reads as many random sectors,
    and PyG's."""
    fewer = ("--batch-size", "16", "--fanouts", "3,2")

    def bench(*options, batches=1000):
        size = ("--batches", "2", "--warmup", "1", *fewer) if b.smoke else ("--batches", batches, "--warmup",
                                                                            batches // 10)
        return b.json([b.khop, "bench", b.dataset(), "--json", "--no-features", "--no-memcpy", "--shuffle", *size,
                       *options])

    card = ("--device", "cuda:0", "--device-memory", CARD)
    bus = (*card, "--device-cache", "0")
    cpu = ("--device", "cpu", "--resident", "--workers", b.threads)
    new = ("--frontier", "new")  # the nodes that PyG expands
    yield Step("card", lambda: bench(*card), CLAIM)
    yield Step("bus", lambda: bench(*bus), CLAIM)

    def random():
        # As many sectors as the sampler's kernels read over the bus for a batch, by the simulator's counts (model.py):
        # picks of a node share sectors.
        one = bench(*bus, batches=30)
        reads = int(model.bus_sectors({"expanded": sum(one["nodes_per_hop"][:-1]), "edges": one["edges_per_batch"]}))
        indices = (b.dataset() / "graph" / "indices.arrow").stat().st_size // 4096 * 4096
        result = b.json([b.gpubench, "random", "-bytes", indices, "-file", b.dir / "random", "-reads", reads,
                         *(("-reps", "1") if b.smoke else ())])
        return {**result, "ms_per_batch": result["seconds"] * 1e3}

    yield Step("random reads", random, CLAIM)
    yield Step("card, new", lambda: bench(*card, *new), CLAIM)
    yield Step("cpu, new", lambda: bench(*cpu, *new, batches=300))
    yield Step("cpu", lambda: bench(*cpu, batches=300))

    def pyg(*ways):
        size = ("--batches", "3", *fewer) if b.smoke else ()
        return b.peer("sample.py", *ways, "--dataset", b.dataset(), "--threads", b.threads, *size)

    yield from peers(b, "sampling", pyg)
    # Each sampler beside the CPU, whose batches are the same. Clusters would be of the whole graph first.
    for sampler, options in [*SAMPLERS.items()][:1] if b.smoke else SAMPLERS.items():
        for where, at in (("card", card), ("bus", bus), ("cpu", cpu)):
            if sampler != "cluster":
                yield Step(f"{where}, {sampler}", lambda at=at, sampler=sampler, options=options:
                           bench(*at, "--sampler", sampler, *options, batches=50),
                           MORE if where == "cpu" else SPEED, seconds=60, guess=START + 1)
    for blocks in (40, 160, 640):
        yield Step(f"bus, {blocks} blocks", lambda blocks=blocks: bench(*bus, "--device-blocks", blocks))


def peers(b, phase, run):
    """The steps of PyG, by how many workers it has: a start of torch for all that are wanted."""
    likely, unlikely = (((), FEWER[-1:]) if b.smoke else (WORKERS, FEWER))
    for workers, worth in (likely, PEER), (unlikely, MORE):
        shared = Shared(b, phase, run, [f"pyg-{n}" for n in workers])
        for i, name in enumerate(shared.names):
            yield Step(name, lambda shared=shared, name=name: shared.step(name), worth, seconds=420,
                       guess=20 + (0 if i else TORCH))


def transfer(b):
    """(d) Bringing a batch's rows to the device, against the CPU-centric way."""
    ids = b.dir / "ids"

    def bus():
        ids.mkdir(exist_ok=True)
        size = ("-batches", "2", "-batch-size", "16", "-fanouts", "3,2", "-rounds", "1", "-threads",
                "2") if b.smoke else ("-batches", "20", "-rounds", "20")
        return b.json([b.gpubench, "transfer", "-dataset", b.dataset(), "-save", ids, "-threads", b.threads, *size])

    def torch():
        if b.no_torch:
            return {"skipped": b.no_torch}
        if not list(ids.glob("batch-*.i64")):  # the other step was on another machine
            bus()
        size = ("--rounds", "1", "--device", "cpu") if b.smoke else ("--rounds", "20")
        return json.loads(b.python("transfer.py", "--dataset", b.dataset(), "--ids", ids, "--threads", b.threads,
                                   *size)[1])

    yield Step("khop", bus, CLAIM, guess=40)
    yield Step("torch", torch, CLAIM, guess=TORCH + 20)


def training(b):
    """(e) GraphSAGE end to end, by way of loading, with the energy of each."""
    def train(*ways, batches=400, warmup=30):
        size = ("--fanouts", "3,2", "--batch-size", "16", "--batches", "3", "--warmup", "1", "--hidden", "4",
                "--device", "cpu") if b.smoke else (
            "--batches", batches, "--warmup", warmup, "--device-memory", CARD)
        command = ("train.py", *ways, "--dataset", b.dataset(), "--khop", b.khop, "--threads", b.threads, *size)
        if b.no_torch:
            if not b.smoke or ways[0].startswith("pyg"):
                return {"skipped": b.no_torch}
            command += ("--stand-in",)  # so that all but the model runs
        return b.peer(*command) if ways[0].startswith("pyg") else b.python_json(*command)

    shared = Shared(b, "training", train, ["staged", "khop-bus", "khop-cuda", "khop-capped", "khop-copies", "khop-cpu",
                                           "select"])
    for way in shared.names:
        yield Step(way, lambda way=way: shared.step(way), CLAIM, seconds=300,
                   guess=START + 5 + (TORCH if way == "staged" else 0))
    few = {f"pyg-{n}" for n in FEWER}  # and so more time a batch; two rounds of all workers warm up
    yield from peers(b, "training", lambda *ways: train(*ways, batches=24, warmup=8) if few & {*ways}
                     else train(*ways, batches=96, warmup=30))


def ops(b):
    """(f) Operations on the graph and on a block, and those of the operation benchmark by kind, sparsity and size."""
    block, widths = b.dir / "block", "33" if b.smoke else "16,32,64,100,128,256"

    def graph():
        return b.dataset("sbm", "--nodes", "200") if b.smoke else b.dataset()

    def khop():
        block.mkdir(exist_ok=True)
        size = ("-fanouts", "3,2", "-batch-size", "16", "-reps", "1") if b.smoke else ("-reps", "7")
        return b.json([b.gpubench, "products", "-dataset", graph(), "-save", block, "-widths", widths, *size])

    def torch():
        if b.no_torch:
            return {"skipped": b.no_torch}
        if not (block / "block.columns").exists():  # the other step was on another machine
            khop()
        size = ("--reps", "1", "--device", "cpu") if b.smoke else ("--reps", "7")
        return b.python_json("products.py", "--dataset", graph(), "--block", block, "--widths", widths, *size)

    def kinds():
        if b.no_torch:
            return {"skipped": b.no_torch}
        size = ("--device", "cpu", "--no-khop", "--rounds", "1", "--minutes",
                "0.1") if b.smoke else ("--device", "cuda", "--minutes", "4.5")
        return b.python_json("kinds.py", "--json", *size)

    yield Step("khop", khop, CLAIM, seconds=300, guess=40)
    yield Step("torch", torch, CLAIM, seconds=300, guess=TORCH + 35)
    yield Step("kinds", kinds, seconds=400, guess=TORCH + 275)


PHASES = {"machine": machine, "gather": gather, "sampling": sampling, "transfer": transfer, "training": training,
          "ops": ops}
