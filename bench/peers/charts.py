#!/usr/bin/env python3
"""The charts of docs/results/README.md and the picture of README.md, as SVG, by the standard library alone.

    bench/peers/charts.py [FOLDER]      draws all of them anew (default: docs/results); make bench-peers does it, too

Loading and memory come from cpu.json, which bench/peers/run.py writes.
The others come from charts.json, which names the page that has their figures. A chart's title is its statement: the
page has the same words, and tests/test_charts.py holds both to the figures.
"""
import html
import json
import pathlib
import re
import statistics
import sys
import textwrap

import report

HERE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results"

# An image on a page cannot know the page's colours, only whether the reader wants dark ones: so it has a ground.
STYLE = """
svg{--g:#fff;--t:#1f2328;--m:#59636e;--k:#0969da;--p:#8c959f;--l:#d1d9e0}
@media(prefers-color-scheme:dark){svg{--g:#0d1117;--t:#f0f6fc;--m:#9198a1;--k:#4493f8;--p:#7d8590;--l:#3d444d}}
text{font:20px system-ui,-apple-system,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;fill:var(--t)}
.title{font-size:24px}.title,.group,.ours{font-weight:700}.note{font-size:17px;fill:var(--m)}
rect{fill:var(--p)}rect.ours{fill:var(--k)}rect.ground{fill:var(--g);stroke:var(--l)}
"""
WIDTH, EDGE, NAMES, VALUES, ROW = 640, 24, 180, 180, 31
LETTERS, SMALL = 38, 60  # in a line of a title and of a note


def number(value):
    """Two or three digits, and all of a whole number."""
    digits = 0 if value >= 99.5 else 1 if value >= 9.95 else 2 if value < 0.995 else 1
    return f"{value:,.{digits}f}"


def ratio(value):
    return f"{value:,.{0 if value >= 99.5 else 1}f}"


def bar(name, value, times=None, ours=False):
    return {"name": name, "value": value, "times": times, "ours": ours}


def lines_of(title):
    """The title in lines that are about as long as each other, a number beside its unit."""
    title = re.sub(r"(\d) (ms|s|GB)\b", "\\1\u00a0\\2", re.sub(r"\b(PyG|DGL|GraphBolt) (\d)", "\\1\u00a0\\2", title))
    fewest = len(textwrap.wrap(title, LETTERS))
    return next(lines for lines in (textwrap.wrap(title, n) for n in range(1, LETTERS + 1)) if len(lines) == fewest)


def words(kind, x, y, text):
    return f'<text class="{kind}" x="{x:g}" y="{y}">{html.escape(text)}</text>'


def svg(title, groups, note):
    """groups: (heading, unit, bars). All bars of a group have one scale, from 0."""
    out, y, left = [], EDGE + 22, EDGE + NAMES
    for line in lines_of(title):
        out.append(words("title", EDGE, y, line))
        y += 31
    for heading, unit, bars in groups:
        out.append(words("group", EDGE, y + 12, heading))
        y += 22
        most = max(b["value"] for b in bars)
        for b in bars:
            long = max(2, round((WIDTH - left - VALUES - EDGE) * b["value"] / most, 1))
            value = f"{number(b['value'])} {unit}" + (f" · {ratio(b['times'])}×" if b["times"] else "")
            kind = "ours" if b["ours"] else "peer"
            out += [words(kind, EDGE, y + 21, b["name"]),
                    f'<rect class="{kind}" x="{left}" y="{y + 4}" width="{long:g}" height="{ROW - 8}" rx="2"/>',
                    words(kind, left + long + 8, y + 21, value)]
            y += ROW
        y += 22
    y += 4
    for line in textwrap.wrap(note, SMALL):
        out.append(words("note", EDGE, y, line))
        y += 22
    says = "; ".join(f"{heading}: " + ", ".join(f"{b['name']} {number(b['value'])} {unit}" for b in bars)
                     for heading, unit, bars in groups)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" '
            f'role="img" aria-label="{html.escape(title)}. {html.escape(says)}">\n<style>{STYLE}</style>\n'
            f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{y - 1}" rx="8"/>\n'
            + "\n".join(out) + "\n</svg>\n")


# --- loading and memory, of cpu.json ---

ONE = {"threads": 1, "beside": ""}


class Contest:
    """A contest on one thread, and the peers' fastest ways in it."""

    def __init__(self, result):
        self.result = result

    def runs(self, what, contestant, way=None):
        ways = report.best_ways(self.result["runs"], what=what, setting=ONE)
        found = [runs for (name, of), runs in ways.items() if name == contestant and way in (None, of)]
        if not found:
            raise LookupError(f"one thread, {what}: {contestant}, {way or 'any way'} was not measured")
        return found[0]

    def ms(self, what, contestant, way=None):
        return statistics.median(r["ms"] for r in self.runs(what, contestant, way))

    def times(self, what, peer, way):
        """How many times as long as khop a peer takes. PyG expands new nodes only, as does khop's way of that name."""
        way = "resident, new" if peer == "PyG" else way
        return statistics.median(report.ratios(self.runs(what, peer), self.runs(what, "khop", way)))

    def memory(self, contestant, way=None):
        """GB of a process that holds graph and features. Peers hold both when they only sample, too."""
        runs = self.runs("features", contestant, way)
        return max(r["anon_bytes"] for r in runs) / 1e9

    def peers(self, what, way):
        return [bar(peer, self.ms(what, peer), self.times(what, peer, way)) for peer in ("DGL", "GraphBolt", "PyG")]

    def note(self):
        versions = self.result["versions"]["DGL"], self.result["versions"]["PyG"]
        backend = next(k for k in ("pyg_lib", "torch_sparse") if k in versions[1])
        return (f"{self.result['workload']['batch_size']:,} seeds, fan-outs 15, 10, 5, "
                f"{self.result['workload']['edges'] / 1e6:.0f} M edges; one thread. DGL and GraphBolt "
                f"{versions[0]['dgl']}; PyG {versions[1]['torch_geometric']} with {backend.replace('_', '-')} "
                f"{versions[1][backend]}.")


def batches(c):
    times = {what: {p["name"]: ratio(p["times"]) for p in c.peers(what, "resident")}
             for what in ("sampling", "features")}
    title = (f"khop samples a batch in {number(c.ms('sampling', 'khop', 'resident'))} ms; DGL takes "
             f"{times['sampling']['DGL']} times as long, GraphBolt {times['sampling']['GraphBolt']}, "
             f"PyG {times['sampling']['PyG']}")
    groups = [(heading, "ms", [bar("khop", c.ms(what, "khop", "resident"), ours=True), *c.peers(what, "resident")])
              for what, heading in (("sampling", "Sampling a batch"),
                                    ("features", "Sampling and 100 float32 features a node"))]
    return svg(title, groups, c.note()), title


def memory(c):
    ways = [("khop, mapped", "mapped"), ("khop, int8", "resident, degree, int8"), ("khop, in RAM", "resident")]
    bars = [bar(name, c.memory("khop", way), ours=True) for name, way in ways]
    bars += [bar(peer, c.memory(peer)) for peer in ("GraphBolt", "DGL", "PyG")]
    title = (f"Graph and features take khop {number(bars[0]['value'])} to {number(bars[2]['value'])} GB; "
             f"GraphBolt {number(bars[3]['value'])}, DGL {number(bars[4]['value'])}, PyG {number(bars[5]['value'])}")
    files = max(r["file_bytes"] for r in c.runs("features", "khop", "mapped")) / 1e9
    note = (f"Memory of the process while it loads batches with features. Mapped, khop also reads {number(files)} GB "
            "of files through the page cache, which the system may take back. ")
    return svg(title, [("Memory", "GB", bars)], note + c.note()), title


def picture(c):
    """The picture of README.md: khop as it is by default."""
    ms, gb = c.ms("features", "khop", "mapped"), c.memory("khop", "mapped")
    peers = c.peers("features", "mapped")
    title = (f"A batch with features in {number(ms)} ms: " + ", ".join(
        f"{p['name']} takes {ratio(p['times'])} times as long" if n == 0 else f"{p['name']} {ratio(p['times'])}"
        for n, p in enumerate(peers)))
    files = max(r["file_bytes"] for r in c.runs("features", "khop", "mapped")) / 1e9
    groups = [("Sampling and 100 float32 features a node", "ms", [bar("khop", ms, ours=True), *peers]),
              ("Memory of the process", "GB", [bar("khop", gb, ours=True), *(
                  bar(p["name"], c.memory(p["name"])) for p in peers)])]
    note = f"khop maps its files: {number(files)} GB of page cache, which the system may take back. "
    return svg(title, groups, note + c.note()), title


# --- the others, of charts.json ---

def written(given):
    """A chart whose figures a page has: charts.json names it. Ratios are of the bar that a group calls base."""
    groups, values = [], {}
    for group in given["groups"]:
        base = group.get("base", "khop")
        bars = [bar(name, value, None if name in ("khop", base) else value / group["bars"][base], "khop" in name)
                for name, value in group["bars"].items()]
        groups.append((group["heading"], group["unit"], bars))
        values |= {f"{group['key']}.{b['name']}": number(b["value"]) for b in bars}
        values |= {f"{group['key']}.{b['name']}.times": ratio(b["times"]) for b in bars if b["times"]}
    title = re.sub(r"\{([^}]+)\}", lambda m: values[m[1]], given["title"])
    return svg(title, groups, given["note"]), title


def read(folder, name):
    """What a contest writes into another folder is beside what was measured here."""
    path = folder / name
    return json.loads((path if path.exists() else HERE / name).read_text(encoding="utf-8"))


def draw(folder):
    """Name of a file -> (its text, its title)."""
    contest = Contest(read(folder, "cpu.json"))
    charts = {"cpu.svg": picture(contest), "chart-batches.svg": batches(contest), "chart-memory.svg": memory(contest)}
    return charts | {f"chart-{name}.svg": written(given) for name, given in read(folder, "charts.json").items()}


def write(folder):
    for name, (text, title) in draw(folder).items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{name}: {title}", file=sys.stderr)


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
