#!/usr/bin/env python3
"""How many passes over a layer's input khop embed makes, by memory, graph and order of the nodes: bytes that are read
and written, over those of the layer's input. It asks for plans, whose bytes a run reads and writes exactly; with --run
it embeds in each memory, too, and fails where other bytes come.

Graphs are R-MAT, one of the size and degrees of ogbn-products, and --real, a source of khop convert; each as it is
numbered, by community, and hot rows first. A third and a sixth of the features are what a control group would give, of
which --max-memory is three quarters. What it finds goes to --out as JSON, and a chart beside it.

    bench/embed/passes.py --real cnr-2000.graph --out docs/results/embed-passes.json
    bench/embed/passes.py --draw docs/results/embed-passes.json       the table and the chart alone
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))
import charts  # noqa: E402

ORDERS = {"none": "no", "community": "community", "hot": "hot"}
SHARES = {"a third": 3, "a sixth": 6}
PART = 3 / 4  # of the memory of a control group


def call(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: status {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def edges_of(data: pathlib.Path):
    """Sources and destinations of a generated dataset."""
    import numpy as np

    manifest = json.loads((data / "dataset.json").read_text())["content"]

    def column(name: str, dtype: str):
        part, = next(c for c in manifest["columns"] if c["name"] == name)["parts"]
        return np.fromfile(data / part["path"], dtype, offset=part["body_offset"], count=part["rows"])

    indptr = column("indptr", "<i8")
    return column("indices", "<i4"), np.repeat(np.arange(len(indptr) - 1, dtype="<i4"), np.diff(indptr))


def prepared(khop: str, folder: pathlib.Path, name: str, source: object, order: str, width: int) -> pathlib.Path:
    """A dataset in an order, with features that are 0: bytes do not depend on them."""
    import numpy as np

    data = folder / f"{name}-{order}"
    if data.exists():
        return data
    if not isinstance(source, pathlib.Path):  # what khop generate makes
        kind, nodes, edges = source
        made, source = folder / name, folder / f"{name}-edges"
        if not source.exists():
            call(khop, "generate", kind, made, "--nodes", nodes, "--edges", edges, "--features", -1)
            source.mkdir()
            np.save(source / "edge_index.npy", np.stack(edges_of(made)))
            np.save(source / "y.npy", np.zeros(nodes, "<i4"))
    call(khop, "convert", source, data, "--reorder", ORDERS[order])
    nodes = json.loads(call(khop, "info", data, "--json"))["nodes"]
    with open(folder / "x.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (nodes, width)})
        file.truncate(file.tell() + nodes * width * 4)
    call(khop, "add", data, "--column", f"feature={folder / 'x.npy'}", "--force")
    return data


def model(khop: str, folder: pathlib.Path, width: int) -> pathlib.Path:
    """A 3-layer GraphSAGE of one width."""
    tiny, checkpoint = folder / f"tiny-{width}", folder / f"model-{width}"
    if not checkpoint.exists():
        call(khop, "generate", "sbm", tiny, "--nodes", 500, "--edges", 5000, "--features", width, "--classes", 8)
        call(khop, "train", tiny, "--model", "sage", "--layers", 3, "--hidden", width, "--epochs", 1, "--checkpoint",
             checkpoint)
    return checkpoint


def measured(o: argparse.Namespace, khop: str, data: pathlib.Path, checkpoint: pathlib.Path, width: int) -> list[dict]:
    nodes = json.loads(call(khop, "info", data, "--json"))["nodes"]
    found = []
    for share, part in SHARES.items():
        memory = int(nodes * width * 4 / part * PART)
        command = [khop, "embed", data, "--checkpoint", checkpoint, "--max-memory", memory, "--out",
                   o.folder / "rows.npy", "--force", "--json"]
        plan = json.loads(call(*command, "--plan"))
        layers = []
        for step, inputs in zip(plan["steps"], (width, width, 16)):
            of = nodes * inputs * 4
            layers.append({"way": step["way"], "read": round(step["planned_bytes_read"] / of, 2),
                           "written": round(step["planned_bytes_written"] / of, 2),
                           "passes": round((step["planned_bytes_read"] + step["planned_bytes_written"]) / of, 2)})
        one = {"memory": share, "layers": layers}
        if o.run:
            came = json.loads(call(*command))
            for k in "bytes_read", "bytes_written":
                if came[k] != came["planned_" + k]:
                    raise SystemExit(f"{data}, {share}: {k} are {came[k]}, planned {came['planned_' + k]}")
            one["seconds"] = round(came["seconds"], 1)
        found.append(one)
    return found


def table(report: dict) -> str:
    lines = ["| graph | order | a third: layer 1, 2 | a sixth: layer 1, 2 |", "|---|---|---|---|"]
    for run in report["runs"]:
        cells = [", ".join(f"{layer['passes']} ({layer['way']})" for layer in one["layers"][:2])
                 for one in run["memories"]]
        lines.append(f"| {run['graph']} | {run['order']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chart(report: dict) -> str:
    groups = []
    for n, share in enumerate(SHARES):
        bars = [charts.bar(f"{run['graph']}, {run['order']}", run["memories"][n]["layers"][0]["passes"], ours=True)
                for run in report["runs"]]
        groups.append((f"Layer 1, {share} of the features as memory", "passes", bars))
    return charts.svg("Passes over a layer's input, read and written", groups,
                      "3-layer GraphSAGE, as wide as the features: one pass is read and one written at least. "
                      f"khop at {report['khop']}.")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--folder", type=pathlib.Path,
                   default=pathlib.Path(os.environ.get("KHOP_BENCH_DIR", ROOT / ".bench")) / "embed-passes")
    p.add_argument("--khop", help="the program; it is built where none is named")
    p.add_argument("--real", type=pathlib.Path, help="a source of khop convert")
    p.add_argument("--run", action="store_true", help="embed, too")
    p.add_argument("--only", help="of these graphs, with commas; others stay in --out as they are")
    p.add_argument("--out", type=pathlib.Path)
    p.add_argument("--draw", type=pathlib.Path)
    o = p.parse_args()
    if o.draw:
        report = json.loads(o.draw.read_text())
        o.draw.with_suffix(".svg").write_text(chart(report), encoding="utf-8")
        print(table(report))
        return
    o.folder.mkdir(parents=True, exist_ok=True)
    khop = o.khop or str(o.folder / "khop")
    if not o.khop:
        subprocess.run(["go", "build", "-o", khop, "./cmd/khop"], cwd=ROOT, check=True)
    graphs: list = [("R-MAT", ("rmat", 6_000_000, 60_000_000), 128),
                    ("products", ("products", 2_449_029, 123_718_280), 256)]
    if o.real:
        graphs.append((o.real.stem, o.real, 1024))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    before = json.loads(o.out.read_text())["runs"] if o.only and o.out else []
    report = {"khop": commit.strip(), "runs": []}
    for name, source, width in graphs:
        if o.only and name not in o.only.split(","):
            report["runs"] += [run for run in before if run["graph"] == name]
            continue
        checkpoint = model(khop, o.folder, width)
        for order in ORDERS:
            data = prepared(khop, o.folder, name, source, order, width)
            report["runs"].append({"graph": name, "order": order, "width": width,
                                   "memories": measured(o, khop, data, checkpoint, width)})
            print(json.dumps(report["runs"][-1]), flush=True)
    if o.out:
        o.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        o.out.with_suffix(".svg").write_text(chart(report), encoding="utf-8")
    print(table(report))


if __name__ == "__main__":
    main()
