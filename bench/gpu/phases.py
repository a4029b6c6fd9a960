"""The phases: each yields its steps, (name, work). A step's work returns what is kept; names do not change between runs."""
import os
import re
import shutil

GIB = 1 << 30
WIDTHS = "4,8,16,32,64,128,132,256,400,512,516,1024,2048,2052,4096,4100"
ALIGNMENTS = ",".join(str(w) for w in range(2048, 2077, 4))
CARD = "8GiB"  # device memory, wherever the claim is about what is larger than the card


def machine(b):
    """(a) What the machine has, the tests on its driver, and batches equal to the CPU's."""
    yield "doctor", lambda: b.json([b.khop, "doctor", b.dataset(), "--json"])
    tests = [line.split() for line in (b.tests() / "list.txt").read_text().splitlines()]
    if b.smoke:
        tests = [t for t in tests if t[0] == "internal/cuda/drivertest"]
    for folder, names in tests:
        yield f"tests {folder}", lambda folder=folder, names=names: run_tests(b, folder, names)
    for kind, options in SAME[:2] if b.smoke else SAME:
        yield " ".join(["same", kind, *options]), lambda kind=kind, options=options: same(b, kind, options)
    for tool in ("memcheck", "racecheck"):
        yield tool, lambda tool=tool: sanitize(b, tool)


def run_tests(b, folder, names):
    place = b.tests() / folder
    env = {"KHOP_TESTDATA": ""}
    status, out, errors = b.call([place / "test", "-test.v", "-test.run", names, "-test.timeout", "400s"], cwd=place, env=env, allowed=(0, 1, 2))
    count = {what: re.findall(rf"^--- {what}: (\S+)", out, re.M) for what in ("PASS", "FAIL", "SKIP")}
    result = {"passed": len(count["PASS"]), "skipped": count["SKIP"]}  # skipped: what needs the simulator
    if status or count["FAIL"]:
        result["failed"] = f"{', '.join(count['FAIL']) or 'the program ended'}: {(out + errors)[-2000:]}"
    return result


SMALL = ("--fanouts", "5,3", "--batch-size", "64", "--batches", "4", "--shuffle")
SAME = [
    ("products", SMALL),
    ("typed", SMALL),
    ("products", ("--fanouts", "15,10,5", "--batches", "3")),
    ("products", ("--fanouts", "15,10,5", "--batches", "3", "--frontier", "new", "--device-cache", "0")),
    ("products", ("--fanouts", "15,10,5", "--batches", "3", "--replace", "--device-cache", "200MB")),
    ("products", ("--fanouts", "15,10,5", "--batches", "3", "--device-cache", "700MB", "--hot-rows", "presample")),
    ("typed", ("--fanouts", "-1,4", "--batches", "3", "--device-cache", "0")),
    ("rmat", ("--fanouts", "20,20", "--batches", "3", "--shuffle", "--seed", "7")),
    ("sbm", ("--fanouts", "10,10,10", "--batches", "3", "--replace", "--frontier", "new")),
]


def same(b, kind, options):
    """The digests of batches that the device makes are those of the CPU's."""
    dataset = b.dataset(kind, *(("--nodes", "2000") if b.smoke and kind != "products" else ()))
    seeds = ("--seeds", "all")
    device = [o for o in options]
    cpu, skip = [], False
    for o in options:  # options of the device alone
        skip, take = o in ("--device-cache", "--hot-rows"), not skip and o not in ("--device-cache", "--hot-rows")
        if take:
            cpu.append(o)
    digests = [b.call([b.khop, "sample", dataset, *seeds, "--digest", "--device", name, *more])[1] for name, more in (("cpu", cpu), ("cuda", device))]
    if not digests[0].strip() or digests[0] != digests[1]:
        return {"failed": f"the device's digests are\n{digests[1]}the CPU's are\n{digests[0]}"}
    return {"batches": len(digests[0].splitlines()), "digests": [line.split()[-1] for line in digests[0].splitlines()]}


def sanitize(b, tool):
    program = shutil.which("compute-sanitizer")
    if not program:
        return {"skipped": "compute-sanitizer is not installed here"}
    dataset = b.dataset("products", *(() if b.smoke else ("--nodes", "20000")))
    status, out, errors = b.call([program, "--tool", tool, "--error-exitcode", "99", b.khop, "sample", dataset, "--digest", "--device", "cuda", *SMALL],
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

    yield "file 1 GiB", lambda: rows(GIB, file="rows-1")
    yield "alignments", lambda: rows(GIB, widths=ALIGNMENTS, file="rows-1")
    yield "offsets", lambda: rows(GIB, widths="128,400,512,2048", offsets="0,4,16,32,64,100", file="rows-1")
    yield "grids", lambda: rows(GIB, "-blocks", "20,40,80,160,320", widths="128,400,512,2048", file="rows-1")
    for pages in ("small", "huge"):
        yield f"anonymous 1 GiB, {pages} pages", lambda pages=pages: rows(GIB, "-pages", pages)
    yield "file 8 GiB", lambda: rows(8 * GIB, file="rows-8")
    for pages in ("huge", "small"):
        yield f"anonymous 64 GiB, {pages} pages", lambda pages=pages: rows(64 * GIB, "-pages", pages)
    yield "file 32 GiB", lambda: rows(32 * GIB, file="rows-32")


def sampling(b):
    """(c) Sampling with the topology on the card and over the bus, beside a kernel that reads as many random sectors."""
    def bench(*options):
        size = ("--batches", "2", "--warmup", "1", "--batch-size", "16", "--fanouts", "3,2") if b.smoke else ("--batches", "300", "--warmup", "30")
        return b.json([b.khop, "bench", b.dataset(), "--json", "--no-features", "--no-memcpy", "--shuffle", *size, *options])

    yield "card", lambda: bench("--device", "cuda:0", "--device-memory", CARD)
    yield "bus", lambda: bench("--device", "cuda:0", "--device-memory", CARD, "--device-cache", "0")
    for blocks in (40, 160, 640):
        yield f"bus, {blocks} blocks", lambda blocks=blocks: bench("--device", "cuda:0", "--device-memory", CARD, "--device-cache", "0", "--device-blocks", blocks)
    yield "cpu", lambda: bench("--device", "cpu", "--resident")

    def random():
        # What a batch reads over the bus at least: a pair of indptr for each node that a hop expands, and each edge's source.
        one = bench("--device", "cuda:0", "--device-memory", CARD, "--device-cache", "0", "--batches", "3")
        reads = int(sum(one["nodes_per_hop"][:-1]) + one["edges_per_batch"])
        indices = (b.dataset() / "graph" / "indices.arrow").stat().st_size // 4096 * 4096
        result = b.json([b.gpubench, "random", "-bytes", indices, "-file", b.dir / "random", "-reads", reads, *(("-reps", "1") if b.smoke else ())])
        return {**result, "ms_per_batch": result["seconds"] * 1e3}

    yield "random reads", random


def transfer(b):
    """(d) Bringing a batch's rows to the device, against the CPU-centric way."""
    ids = b.dir / "ids"
    ids.mkdir(exist_ok=True)

    def bus():
        size = ("-batches", "2", "-batch-size", "16", "-fanouts", "3,2", "-rounds", "1", "-threads", "2") if b.smoke else ("-batches", "20", "-rounds", "20")
        return b.json([b.gpubench, "transfer", "-dataset", b.dataset(), "-save", ids, "-threads", b.threads, *size])

    def torch():
        if not has_torch(b):
            return {"skipped": "torch is not installed for this Python, or finds no CUDA device"}
        size = ("--rounds", "1", "--device", "cpu") if b.smoke else ("--rounds", "20")
        status, out, _ = b.python("transfer.py", "--dataset", b.dataset(), "--ids", ids, "--threads", b.threads, *size)
        return parse(out)

    yield "khop", bus
    yield "torch", torch


def parse(out):
    import json

    return json.loads(out)


def has_torch(b):
    import subprocess
    import sys

    test = "import torch" if b.smoke else "import torch; assert torch.cuda.is_available()"
    return subprocess.run([sys.executable, "-c", test], capture_output=True).returncode == 0


def training(b):
    """(e) GraphSAGE end to end, by way of loading, with the energy of each."""
    def train(way):
        if not has_torch(b):
            return {"skipped": "torch is not installed for this Python, or finds no CUDA device"}
        batches = {"pyg-0": "16", "pyg-4": "48", "pyg-8": "96", "pyg-15": "96"}.get(way, "400")
        size = ("--fanouts", "3,2", "--batch-size", "16", "--batches", "3", "--warmup", "1", "--hidden", "4", "--device", "cpu") if b.smoke else (
            "--batches", batches, "--warmup", "5" if way.startswith("pyg") else "30", "--device-memory", CARD)
        status, out, errors = b.python("train.py", way, "--dataset", b.dataset(), "--khop", b.khop, "--threads", b.threads, *size, allowed=(0, 3))
        if status == 3:
            return {"skipped": errors.strip().splitlines()[-1]}
        return parse(out)

    for way in ("staged", "khop-cuda", "khop-cpu", "select"):
        yield way, lambda way=way: train(way)
    yield "torch-sparse", lambda: build_peers(b)
    for workers in (15, 8, 4, 0):
        if not b.smoke or workers == 0:
            yield f"pyg-{workers}", lambda workers=workers: train(f"pyg-{workers}")


def build_peers(b):
    """Builds torch-sparse and torch-scatter from the bundle's sources, without CUDA: PyG samples with them."""
    import subprocess
    import sys

    found = subprocess.run([sys.executable, "-c", "import pyg_lib"], capture_output=True).returncode == 0 or subprocess.run(
        [sys.executable, "-c", "import torch_sparse"], capture_output=True).returncode == 0
    if found:
        return {"skipped": "PyG has a sampler here already"}
    sources = sorted((b.here / "peers").glob("*.tar.gz"))
    if not sources or b.smoke:
        return {"skipped": "the bundle has no sources of it" if not sources else "not built to see that all runs"}
    b.call([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--target", b.dir / "site", *sources],
           env={"FORCE_ONLY_CPU": "1", "MAX_JOBS": str(os.cpu_count())})
    return {"built": [s.name for s in sources]}


PHASES = {"machine": machine, "gather": gather, "sampling": sampling, "transfer": transfer, "training": training}
