#!/usr/bin/env python3
"""What the bundle should measure on GPUs that nobody has tried yet, by arithmetic: a part of docs/results/gpu.md.

    model.py                  prints the part
    model.py --write PAGE     puts it into the page
    model.py --samplers       prints what a batch of each sampler asks for, in full
    model.py RESULT           prints what run has measured beside what was predicted for such a device

The counts are those of the simulated device (counts.json), scaled to the bundle's batches. The constants below are the
rest.
"""
import json
import math
import pathlib
import sys
import types
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
SECTOR, OVERHEAD, LINE = 32, 20, 128


class Machine(NamedTuple):
    name: str
    memory: float    # bytes/s of device memory, as its maker states
    bus: float       # bytes/s that kernels read whole lines of host memory with, in order
    latency: float   # seconds that a read over the bus takes
    requests: int    # reads over the bus that can be under way
    fp32: float      # operations/s of float32, as its maker states
    watts: float     # of the board at work
    loads: float     # watts of the board while it waits for the bus


MACHINES = [
    Machine("A100 80 GB, PCIe 4", 2.04e12, 24e9, 1.3e-6, 512, 19.5e12, 400, 130),
    Machine("H100, PCIe 5", 3.35e12, 54e9, 1.2e-6, 768, 67e12, 700, 180),
    Machine("H200, PCIe 5", 4.8e12, 54e9, 1.2e-6, 768, 67e12, 700, 180),
    Machine("GH200, NVLink-C2C", 4.0e12, 350e9, 0.9e-6, 4096, 67e12, 700, 220),
]
RANDOM = 0.5      # of the device memory's rate that scattered sectors get
WAIT = 0.4e-6     # seconds that a warp waits for a read of device memory
LAUNCH = 3e-6     # a kernel of a graph that waits for the one before, with one read of its own
CPU_ROWS = 70e9   # bytes/s at which 16 threads copy rows to page-locked memory
PYG = 1.0         # seconds of a processor that PyG's sampler and gather take for a batch (docs/results/cpu.md)
HITS = 0.45       # of the rows found in a cache of the fifth with the most in-edges
GATHER = 0.97     # of the model's rate: what the tail of a grid leaves, by guess
SPEED = 80        # of khop's sampler by PyG's, on processors (docs/results/cpu.md)
FP32 = 0.6        # of the stated operations that torch reaches on these shapes
# The batch of the bundle, fan-outs 15, 10, 5 and 1,024 seeds of products (docs/results/cpu.md).
ALL = {"expanded": 171_375, "edges": 947_766, "nodes": 659_796}   # every hop expands all nodes
NEW = {"expanded": 149_292, "edges": 832_234, "nodes": 606_766}   # as PyG does
HOPS = {"nodes": (149_292, 16_131, 1_024), "edges": (832_234, 166_428, 15_360)}  # that the layers compute, of NEW
ROW, NODES = 400, 2_449_029  # of products
WIDTHS = (100, 256, 256, 47)  # of the layers of the bundle's GraphSAGE


def counts():
    return json.loads((HERE / "counts.json").read_text())


def per(kernel):
    """What a kernel's work grows with."""
    return "nodes" if kernel.startswith("gather") else "expanded" if kernel == "neighbor_count" else "edges"


def kernels(where, batch):
    """(kernel, launches, sectors of device memory, sectors and lines over the bus) of a batch."""
    c = counts()
    for name, k in c[where].items():
        scale = batch[per(name)] / c[per(name)]
        yield name, k["launches"], k["device_sectors"] * scale, k["bus_sectors"] * scale, k["bus_lines"] * scale


def bus_sectors(batch):
    """Sectors that the sampler's kernels read over the bus for a batch with these numbers of expanded nodes and
    edges."""
    return sum(sectors for name, _, _, sectors, _ in kernels("bus", {"nodes": 0, **batch})
               if not name.startswith("gather"))


def wire(m, sectors, lines):
    """Seconds that reads over the bus take: by bytes or by requests, whichever is more."""
    link = m.bus * (LINE + OVERHEAD) / LINE
    return max((SECTOR * sectors + OVERHEAD * lines) / link, lines * m.latency / m.requests)


def work(m, where, batch, gather):
    """Seconds of the sampling kernels, or of the gather, of a batch."""
    total = 0.0
    for name, launches, device, sectors, lines in kernels(where, batch):
        if name.startswith("gather") == gather:
            total += launches * LAUNCH + max(device * SECTOR / (m.memory * RANDOM), wire(m, sectors, lines))
    return total


def sampler_kernels(m, sampler, card=False):
    """(kernel, seconds, what they are spent on) of a batch of samplers.json, over the bus or with all on the card."""
    for name, k in sampler["kernels"].items():
        device, bus = k["device_sectors"], k["bus_sectors"]
        near, far = k["longest_device"], k["longest_bus"]
        if card:
            device, bus, near, far = device + bus, 0, near + far, 0
        seconds, what = max((device * SECTOR / (m.memory * RANDOM), "device memory"),
                            (wire(m, bus, bus and k["bus_lines"]), "the bus"),
                            (near * WAIT + far * m.latency, "one warp's reads"))
        launched = k["launches"] * LAUNCH
        yield name, launched + seconds, what if seconds > launched else "launches"


def sampler_seconds(m, sampler, card=False):
    return sum(seconds for _, seconds, _ in sampler_kernels(m, sampler, card))


def limit_share(m, sampler):
    """Of the time of a batch over the bus, what the bytes that it needs would take in order."""
    needed = sum(k["needed"] for k in sampler["kernels"].values())
    return needed / m.bus / sampler_seconds(m, sampler)


def sampler_tables():
    samplers = json.loads((HERE / "samplers.json").read_text())
    for graph, text in GRAPHS.items():
        if graph not in samplers:
            continue
        counted = samplers[graph]
        yield f"\n### {text}\n\n" + SAMPLERS
        shares = [limit_share(m, counted["uniform"]) for m in NEWEST]
        for name, s in sorted(counted.items(), key=lambda of: -limit_share(NEWEST[0], of[1])):
            total = lambda what: sum(k[what] for k in s["kernels"].values())
            sectors, lines = total("bus_sectors"), total("bus_lines")
            cells = [f"{s['nodes']:,}", f"{s['edges']:,}", f"{sectors / 1e3:,.1f}", f"{lines / 1e3:,.1f}",
                     f"{(SECTOR * sectors + OVERHEAD * lines) / 1e6:,.2f}", f"{total('needed') / 1e6:,.2f}",
                     f"{total('device_sectors') / 1e3:,.1f}"]
            for m, uniform in zip(NEWEST, shares):
                share = limit_share(m, s)
                cells += [f"{sampler_seconds(m, s, True) * 1e3:,.2f}", f"{sampler_seconds(m, s) * 1e3:,.2f}",
                          f"{share:.1%}", f"{share / uniform:.2f}"]
            kernel, _, what = max(sampler_kernels(NEWEST[0], s), key=lambda k: k[1])
            yield f"| {name} | " + " | ".join(cells) + f" | {kernel}: {what} | {s['commit']} |"


def sampler_table():
    """A line a sampler: milliseconds on an H100, and the share of the bus' rate by uniform's, on each graph."""
    counted = json.loads((HERE / "samplers.json").read_text())
    samplers = {graph: counted[graph] for graph in GRAPHS if graph in counted}
    m, names = NEWEST[0], list(dict.fromkeys(name for of in samplers.values() for name in of))
    ratios = {(graph, name): limit_share(m, s) / limit_share(m, of["uniform"])
              for graph, of in samplers.items() for name, s in of.items()}
    for name in sorted(names, key=lambda name: -ratios.get((next(iter(samplers)), name), 0)):
        cells = []
        for graph, of in samplers.items():
            s = of.get(name)
            cells += [f"{sampler_seconds(m, s, True) * 1e3:,.2f}, {sampler_seconds(m, s) * 1e3:,.2f}",
                      f"{ratios[graph, name]:.2f}"] if s else ["", ""]
        yield f"| {name} | " + " | ".join(cells) + " |"
    commits = sorted({s["commit"] for of in samplers.values() for s in of.values()})
    yield (f"\nKernels of {' and '.join(commits)}. `model.py --samplers` prints sectors, lines, bytes, limits, and "
           "a GH200's times.")


def reasons():
    """Why samplers are below half of uniform's share, on one graph and machine or more: each of them must have one."""
    low = {name for graph, counted in json.loads((HERE / "samplers.json").read_text()).items()
           if graph in GRAPHS for name, s in counted.items()
           for m in NEWEST if limit_share(m, s) < limit_share(m, counted["uniform"]) / 2}
    if missing := low - {name for names in WHY for name in names}:
        sys.exit(f"model.py: WHY does not say why {', '.join(sorted(missing))} is below half of uniform's share")
    for names, why in WHY.items():
        if low & {*names}:
            yield f"- **{'; '.join(names)}**: {why}"


def push_seconds(m, h, card=False):
    """Seconds of PPR's pushes, a warp a root, and what limits them; the graph over the bus, tables on the card."""
    sectors, lines, device = 4 * h["chunks"] + h["lookups"], h["chunks"] + h["lookups"], 3 * h["edges"]
    if card:
        sectors, lines, device = 0, 0, device + sectors
    chain = h["longest"] * ((WAIT if card else m.latency) + 2 * WAIT)  # of tables four a chunk, which has two waits
    seconds, what = max((device * SECTOR / (m.memory * RANDOM), "device memory"),
                        (wire(m, sectors, lines), "the bus"), (chain, "waits"))
    return LAUNCH + seconds, what


def host_tables():
    yield PUSHES
    for graph, h in HOST.items():
        cells = [f"{h['pushes'] / 1024:,.0f}", f"{h['edges'] / 1024:,.0f}", f"{h['longest']:,}",
                 f"{h['ppr']:,.0f}, {h['ppr'] / 16:,.1f}"]
        for m in NEWEST:
            seconds, what = push_seconds(m, h)
            cells.append(f"{push_seconds(m, h, True)[0] * 1e3:,.1f}, {seconds * 1e3:,.1f} ({what})")
        yield f"| {graph} | " + " | ".join(cells) + " |"
    h, m = HOST["products"], NEWEST[0]
    copied = (4 * h["full_edges"] + 8 * h["full_nodes"]) / m.bus
    rows = wire(m, 13 * h["full_nodes"], 4 * h["full_nodes"])
    yield FULL % (f"{h['full_nodes']:,}", h["full"], h["full"] / 16, copied * 1e3, rows * 1e3)


def model_seconds(m):
    """GraphSAGE forward and backward, each layer of the nodes that the next one needs."""
    nodes, edges = HOPS["nodes"], HOPS["edges"]
    flops = sum(2 * 2 * n * a * b for n, a, b in zip(nodes, WIDTHS, WIDTHS[1:])) * 3
    moved = sum(e * a * 4 * 4 for e, a in zip(edges, WIDTHS)) * 2
    moved += sum(n * b * 4 * 6 for n, b in zip(nodes, WIDTHS[1:]))
    return flops / (m.fp32 * FP32) + moved / (m.memory * RANDOM)


def predictions(m):
    """(claim as report.py has it, wanted, predicted, why)"""
    card, bus = (work(m, w, ALL, False) for w in ("card", "bus"))
    new = work(m, "card", NEW, False)
    random = wire(m, bus_sectors(ALL), bus_sectors(ALL)) + LAUNCH
    rows = work(m, "bus", ALL, True)
    copy, cpu = ALL["nodes"] * ROW / (m.bus * 1.02), ALL["nodes"] * ROW / CPU_ROWS
    least = max(t := model_seconds(m), NEW["nodes"] * ROW / m.bus)
    load = work(m, "bus", NEW, False) + work(m, "bus", NEW, True)
    centric = max(t, NEW["nodes"] * ROW / m.bus, NEW["nodes"] * ROW / CPU_ROWS, PYG / SPEED)
    step, launches = max(t, load), sum(k[1] for k in kernels("card", ALL) if not k[0].startswith("gather"))
    energy = lambda step, busy: busy * m.watts + (step - busy) * m.loads
    yield ("gather over the bus, rows/s of the model's", ">= 0.95", GATHER,
           "the kernel reads the least lines; what is left is the tail of its grid")
    yield ("sampling on the card, edges/s", ">= 0.7e9", ALL["edges"] / card,
           f"sectors of device memory, and {launches:.0f} kernels one after another")
    yield "sampling on the card / PyG on 16 threads", ">= 10", PYG / 16 / new, "both sample alone"
    yield ("sampling over the bus, share of random reads of as many sectors", ">= 0.70", random / bus,
           "sectors of a line go by in one request")
    yield ("rows over the bus / CPU-centric, unpipelined", "<= 0.60", rows / (cpu + copy),
           "depends most on the copying threads")
    yield ("rows over the bus / CPU-centric, pipelined", "<= 1.05", rows / max(cpu, copy),
           "rows of 400 bytes cost 496 on the wire, 464 in a copy")
    yield ("rows with 20 % cached / CPU-centric, unpipelined", "<= 0.30", (1 - HITS) * rows / (cpu + copy),
           "by the share of hits")
    yield ("a step / the greater of model and rows, without MPS", "<= 1.10", (t + load) / least,
           "processes take turns on the device")
    yield "the same with MPS, or inside the trainer", "<= 1.10", step * 1.03 / least, "both run at once"
    yield "PyG / khop, a step, with MPS", ">= 8", max(PYG / 15, t) / step, "the model, which is the same for both"
    yield ("the best CPU-centric pipeline / khop, a step, with MPS", ">= 1.6", centric / step,
           "the model, or a copy that is as fast")
    yield ("board energy of khop / of that pipeline", "<= 0.75", energy(step, t) / energy(centric, t),
           "the step is shorter, and the board waits less")


def holds(wanted, value):
    sign, limit = wanted.split()
    return value >= float(limit) if sign == ">=" else value <= float(limit)


def figure(v):
    return f"{v / 1e9:.2f}e9" if v >= 1e8 else f"{v:.2f}"


def page():
    yield HEAD
    yield "| | " + " | ".join(m.name for m in MACHINES) + " |\n|---|" + "---:|" * len(MACHINES)
    for text, of in (("device memory, TB/s", lambda m: f"{m.memory / 1e12:.2f}"),
                     ("bus, lines in order, GB/s", lambda m: f"{m.bus / 1e9:.0f}"),
                     ("latency of a read over the bus, us", lambda m: f"{m.latency * 1e6:.1f}"),
                     ("reads under way", lambda m: f"{m.requests:,}"),
                     ("float32, TFLOP/s", lambda m: f"{m.fp32 / 1e12:.1f}"), ("board, W", lambda m: f"{m.watts:.0f}")):
        yield f"| {text} | " + " | ".join(map(of, MACHINES)) + " |"
    yield "| **a batch takes, ms** | | | | |"
    times = (("sampling on the card", lambda m: work(m, "card", ALL, False)),
             ("sampling over the bus", lambda m: work(m, "bus", ALL, False)),
             ("rows from the card", lambda m: work(m, "card", ALL, True)),
             ("rows over the bus", lambda m: work(m, "bus", ALL, True)),
             ("GraphSAGE, a step", model_seconds))
    for text, of in times:
        yield f"| {text} | " + " | ".join(f"{of(m) * 1e3:.2f}" for m in MACHINES) + " |"
    yield CLAIMS
    yield "| claim | wanted | " + " | ".join(m.name.split(",")[0].split()[0] for m in MACHINES) + " |"
    yield "|---|---|" + "---:|" * len(MACHINES)
    for row in zip(*map(predictions, MACHINES)):
        claim, wanted, *_ = row[0]
        cells = (figure(r[2]) + ("" if holds(wanted, r[2]) else " **fails**") for r in row)
        yield f"| {claim} | {wanted} | " + " | ".join(cells) + " |"
    yield FOOT
    yield TIME
    yield from spent_table()
    yield from grace_pages(MACHINES[3])
    yield EACH
    yield from sampler_table()
    yield BELOW
    yield from reasons()
    yield from host_tables()


HEAD = """## What a GPU should do, on paper

**No hardware was measured here.** `bench/gpu/model.py` predicts what [the bundle](../gpu-bundle.md) will measure, and
is part of it: `model.py RESULT` puts a result beside the prediction. A figure that is far off shows a mistake, of the
kernels or of this page.

- The simulated device counts what kernels ask for, warp instruction by warp instruction, for small batches
  (`bench/gpu/counts.json`). Counts are scaled by edges, expanded nodes or rows. Caches are left out. A test compares
  the counts with the kernels as they are, to a sixth.
- The bus has two limits: bytes, of which a read costs its sectors and 20 more, and requests, of which a number can be
  under way at its latency. The greater time counts.
- Scattered sectors get half of the device memory's rate. A kernel of a batch costs 3 us besides: a launch in a graph,
  and one read that nothing hides.
- The batch is the bundle's: products, fan-outs 15, 10 and 5, 1,024 seeds, rows of 400 bytes.
- CPU-centric ways copy rows with 16 threads at 70 GB/s; PyG takes a second of a processor for a batch
  ([cpu.md](cpu.md)). Three figures are guesses: a cache of a fifth of the rows has 45 % of those requested, torch
  reaches 60 % of float32's stated rate, and a gather over the bus 97 % of the model.
- The constants are from data sheets, and from publications on reads of host memory by kernels. Calibrate before
  you compare: the bundle measures the bus first.
"""
CLAIMS = """
### Predicted claims
"""
FOOT = """
Why claims are expected to fail:

- **A step without MPS**: the trainer is another process than the server, so their kernels take turns. Start MPS, or
  load inside the trainer's process. Even then the graph is read over the bus, too.
- **Rows over the bus against copies**, over PCIe: the copy engine wastes less of the bus: rows of 400 bytes cost 464
  in a copy, and 496 by a kernel. The gain is the processors that copies keep busy, and rows that a cache spares.
- **PyG, copies and energy on an A100**: its float32 model takes as long as the loading."""
TIME = """
### The bundle's time, by guess

Seconds on a machine with an H100 and 16 threads, as `phases.py` guesses each step. Nobody has run it. Building PyG's
sampler is not counted: up to 7 minutes, nothing with wheels.

| phase | claims | tests, digests | PyG | each sampler's speed | compute-sanitizer | all | with `--more` |
|---|---:|---:|---:|---:|---:|---:|---:|"""
LIMIT = 25  # minutes that a whole run may take


def spent():
    """The guessed seconds of each phase by the worth of its steps, and of what is before them."""
    import phases

    b = types.SimpleNamespace(smoke=False, dir=HERE, threads=16, tests=[("package", "")] * 14)
    seconds = {"before all": [30, 0, 0, 0, 0, 0]}
    for name, phase in phases.PHASES.items():
        seconds[name] = [0] * 6
        for step in phase(b):
            seconds[name][step.worth] += step.guess
    return seconds


def spent_table():
    seconds, most = spent(), -1  # the last worth is that of --more
    for name, of in [*seconds.items(), ("all", [sum(column) for column in zip(*seconds.values())])]:
        cells = [*of[:most], sum(of[:most]), sum(of)]
        yield f"| {name} | " + " | ".join(f"{c:,.0f}" if c else "" for c in cells) + " |"
    whole = sum(sum(of[:most]) for of in seconds.values()) / 60
    if whole > LIMIT:
        sys.exit(f"model.py: a whole run would take {whole:.1f} minutes, and {LIMIT} are asked")
    yield f"\nSo a whole run takes {whole:.1f} minutes, of at most {LIMIT}."


PAGES = """
### Pages of Grace

A GH200 reads mapped files by the host's page tables (attribute 100), so khop registers nothing there. A batch touches
%s.
Where a translation takes as long as a read, that is little beside the %.2f ms of its rows. Linux on Grace mostly has
pages of 64 KiB."""


def grace_pages(m):
    """Translations of the rows of a batch, by the size of pages."""
    touches = []
    for kib in 4, 64:
        pages = NODES * ROW / (kib * 1024)
        touched = pages * -math.expm1(-ALL["nodes"] / pages)
        touches.append(f"{touched:,.0f} of {pages:,.0f} pages of {kib} KiB "
                       f"({touched * m.latency / m.requests * 1e3:.4f} ms)")
    yield PAGES % (", or ".join(touches), work(m, "bus", ALL, True) * 1e3)


NEWEST = MACHINES[1], MACHINES[3]
GRAPHS = {
    "products": "products: 2.4 million nodes, 124 million edges",
    "cnr-2000": "cnr-2000: 326 thousand pages, 3.2 million links, up to 18,235 to one page",
    "mag-like": "As MAG: 1.9 million papers, authors and institutions, 21 million edges of four types",
}
# Of BenchmarkHost, a batch: counts of PPR's 1,024 roots, and ms of one thread of the processor of cpu.md.
HOST = {
    "products": {"nodes": 2_022_950, "pushes": 36_580, "edges": 2_101_255, "chunks": 81_264, "lookups": 1_861_243,
                 "slots": 5_929_984, "longest": 313, "ppr": 52.6, "full": 0.83, "full_nodes": 62_377,
                 "full_edges": 64_253},
    "cnr-2000": {"nodes": 422_847, "pushes": 1_067_982, "edges": 4_780_643, "chunks": 1_106_594,
                 "lookups": 2_601_821, "slots": 1_276_056, "longest": 12_493, "ppr": 92.0, "full": 0.48,
                 "full_nodes": 9_825, "full_edges": 60_476},
}
PUSHES = """
### What runs on the CPU alone

**PPR.** A push of a root needs those before, but roots do not need each other. In the model a warp
pushes a root, with the graph over the bus and hash tables on the card. `BenchmarkHost` of bench/gpu counts 1,024 roots
with PPR's defaults, and measures the CPU.

| graph | pushes a root | edges | waits of the longest root | CPU, 1 and 16 threads, ms \
| H100: card, bus, ms (limit) | GH200 |
|---|---:|---:|---:|---:|---|---|"""
FULL = """
Over the bus of an H100 a kernel would win a tenth of the time of 16 threads on products, and take 4.3 times as long on
cnr-2000, where a root has up to 12,493 waits, one after the other. 1,024 tables could take 4.3 GB. So PPR stays on the
CPU: the gain depends on the graph, and is a greater loss on others.

**Full.** A batch is a range of nodes with all in-edges, in order. A kernel could only read over the bus what a copy of
the finished block carries. On products a batch of %s nodes takes one thread %.2f ms and 16 threads %.2f; over the
bus of an H100 the block takes %.3f ms, and its rows %.2f. So a kernel would make no epoch shorter."""
SAMPLERS = """| sampler | nodes | edges | sectors, thousands | lines, thousands | MB over the bus | MB needed \
| device's sectors, thousands | H100: card, ms | bus, ms | share | by uniform's | GH200: card, ms | bus, ms | share \
| by uniform's | slowest kernel, H100, and its limit | commit |
|---|""" + "---:|" * 15 + "---|---|"
EACH = """
### Each sampler

A batch of each sampler, as the simulated device counts real ones (`bench/gpu/counts.sh` writes `samplers.json`).
Tables, lists and blocks are on the card. Batches have 1,024 seeds and fan-outs 15, 10 and 5 (10 and 5 where subgraphs
are induced, and for each edge type of the graph as MAG), or draw as many nodes (`samplers_cuda_test.go`).

- *Card, bus*: predicted ms on an H100, with graph and columns in device memory, or over the bus. A kernel takes the
  longest of three times: its sectors' in device memory, the bus's, and that of the warp that waits for the most reads.
  A first run should give these times, to a factor of two, without Python and rows.
- *By uniform's*: of the bus's rate in order, the share that the needed bytes get, over that of uniform neighbours.
- Graphs: products has 2.4 million nodes and 124 million edges; cnr-2000 326 thousand pages and 3.2 million links, up to
  18,235 to one page; the graph as MAG 1.9 million papers, authors and institutions and 21 million edges of four types.

| sampler | products: card, bus, ms | by uniform's | cnr-2000 | by uniform's | as MAG | by uniform's |
|---|---:|---:|---:|---:|---:|---:|"""
BELOW = """
Below half of uniform's share on one graph or more, on an H100 or a GH200:
"""
# Why samplers stay below half of uniform's share.
WHY = {
    ("shadow",): """trees of hubs have 90 million in-edges on products, more than slices of hubs have room for: one warp
  goes through 92,000 of them. Over NVLink the bus waits for it.""",
    ("together",): """a stage before lists the picks of all types, and each edge type reads their types once to count
  and once to pick; over the bus of an H100 most of the time is indptr and types of the destinations.""",
    ("fastgcn",): """draws search the sums of the nodes' importance over the bus; few edges are left of those that are
  looked at, so that 27 launches are a fifth of the time.""",
    ("hgt",): """sums of doubles come in the CPU's order, for which a radix sort orders all in-edges by source, 5 bits a
  pass. It and the race of the nodes take 48 to 54 of the 82 to 88 kernels.""",
    ("ladies",): """edges are sorted as HGT's are, and the sums of their sources added up: 69 to 75 kernels for a few
  thousand edges.""",
    ("uniform, an edge left out",): """each destination looks up whether edges of it are left out, twice, and edges are
  read by bisection first.""",
    ("pinsage",): """walks of 20 steps a seed make so small a batch that launches take a third of it.""",
}



def compare(path):
    """What was measured beside the prediction for the machine whose name is most alike."""
    result = json.loads(pathlib.Path(path).read_text())
    device = result["cuda"]["devices"][0]["name"]
    m = next((m for m in MACHINES if m.name.split(",")[0].split()[0] in device), None)
    if m is None:
        sys.exit(f"model.py: nothing is predicted for {device!r}")
    print(f"measured on {device}, and predicted for {m.name}")
    for phase in result["phases"].values():
        for c in phase["claims"]:
            measured = "not measured" if c["measured"] is None else figure(c["measured"])
            print(f"  {c['claim']}: {measured}, wanted {c['wanted']}")
    for claim, wanted, value, why in predictions(m):
        print(f"  predicted: {claim}: {figure(value)}, wanted {wanted} ({why})")


def put(page, text):
    """A page with its part replaced by what the model prints."""
    before, _, rest = page.partition(HEAD.splitlines()[0] + "\n")
    return before + text + rest[rest.index(AFTER):]


AFTER = "\n## Lines that"  # begins what follows the part in the page


if __name__ == "__main__":
    if sys.argv[1:] == ["--samplers"]:
        print("\n".join(sampler_tables()))
    elif sys.argv[1:2] == ["--write"]:
        written = pathlib.Path(sys.argv[2])
        written.write_text(put(written.read_text(), "\n".join(page()) + "\n"))
    elif len(sys.argv) > 1:
        compare(sys.argv[1])
    else:
        print("\n".join(page()))
