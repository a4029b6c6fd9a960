#!/usr/bin/env python3
"""The tables of a contest. `report.py docs/results` prints them again from the measurements."""
import json
import pathlib
import statistics
import sys
import textwrap

REFERENCE = {"all": "resident", "new": "resident, new"}  # khop's way that a peer is compared with, by frontier

BUSY = 0.5


def median_spread(values, digits=1):
    """Median (lowest-highest), of several."""
    text = lambda v: f"{v:,.{digits}f}"
    if len(values) == 1:
        return text(values[0])
    return f"{text(statistics.median(values))} ({text(min(values))}-{text(max(values))})"


def select(runs, **wanted):
    return [run for run in runs if all(run[key] == value for key, value in wanted.items())]


def best_ways(runs, **where):
    """Name of contestant and way -> its runs, one a round: every way of khop, and the fastest way of each peer."""
    found = {}
    for run in select(runs, **where):
        found.setdefault((run["contestant"], run["way"]), []).append(run)
    speed = lambda name: statistics.median(run["ms"] for run in found[name])
    # A way that left after the first round is not measured often enough to be called the fastest.
    rounds = {peer: max(len(r) for (p, _), r in found.items() if p == peer) for peer, _ in found}
    full = [name for name in found if len(found[name]) == rounds[name[0]]]
    fastest = {peer: min((n for n in full if n[0] == peer), key=speed) for peer in rounds}
    return {name: found[name] for name in full if name[0] == "khop" or name == fastest[name[0]]}


def ratios(runs, reference):
    """How many times as long as khop, round by round."""
    base = {run["round"]: run["ms"] for run in reference}
    return [run["ms"] / base[run["round"]] for run in runs if run["round"] in base]


def shares(runs, reference):
    """What share of the machine's limit is reached, round by round: khop measures the limit of its own batches."""
    limit = {run["round"]: run["limit_ms"] for run in reference or () if run.get("limit_ms")}
    return [limit[run["round"]] / run["ms"] for run in runs if run["round"] in limit]


def by_setting(result, what):
    """A setting's title -> name of a row -> its runs: each way of khop, and the fastest way of each peer."""
    found = {}
    for setting in result["settings"]:
        ways = best_ways(result["runs"], what=what, setting=setting)
        rows = {f"{name}, {way}" if name == "khop" else name: mine for (name, way), mine in ways.items()}
        if what == "features":
            ways = best_ways(result["runs"], what="float16", setting=setting)
            rows |= {f"{name}, float16": mine for (name, _), mine in ways.items()}
        found[title_of(setting)] = rows
    return found


def reference(rows, runs):
    return rows.get(f"khop, {REFERENCE[runs[0]['frontier']]}")


def speed_table(result, what):
    """Milliseconds a batch by contestant and setting; peers also by khop's, and with rows everyone's memory."""
    found = by_setting(result, what)
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    memory = what == "features"
    lines = [f"| | {' | '.join(found)} |{' memory, GB |' if memory else ''}", "|---" * (1 + len(found) + memory) + "|"]
    for name in names:
        cells = []
        for rows in found.values():
            mine = rows.get(name)
            if mine is None:
                cells.append("")
                continue
            against = [] if name.startswith("khop,") else ratios(mine, reference(rows, mine) or ())
            cells.append(median_spread([r["ms"] for r in mine])
                         + (f"; {median_spread(against)} times" if against else ""))
        if memory:
            first = next(rows[name] for rows in found.values() if name in rows)
            cells.append(f"{max(run['anon_bytes'] for run in first) / 1e9:.1f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def limit_table(result):
    """What share of the machine's limit khop's ways reach: sampling, and with rows."""
    found = [by_setting(result, what) for what in ("sampling", "features")]
    share = lambda rows, name: median_spread(shares(rows[name], rows[name]), 2)
    names = list(dict.fromkeys(name for rows in found[0].values() for name in rows if name.startswith("khop,")))
    lines = [f"| | {' | '.join(found[0])} |", "|---" * (1 + len(found[0])) + "|"]
    for name in names:
        cells = [f"{share(found[0][title], name)}, {share(found[1][title], name)}" for title in found[0]]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def count_table(runs):
    lines = ["| | frontier | edges, hop 1, 2, 3 | nodes after hop 1, 2, 3 |", "|---|---|---|---|"]
    means = lambda group, key: ", ".join(f"{statistics.fmean(h):,.0f}" for h in zip(*(run[key] for run in group)))
    for name in dict.fromkeys((run["contestant"], run["frontier"]) for run in runs):
        group = select(runs, contestant=name[0], frontier=name[1])
        lines.append(f"| {name[0]} | {name[1]} | {means(group, 'edges_per_hop')} | {means(group, 'nodes_per_hop')} |")
    return lines


def gather_table(result):
    lines = ["| | threads | pages | gather, GB/s | memcpy, GB/s |", "|---|---|---|---|---|"]
    spread = lambda s: f"{s['median']:.1f} ({s['min']:.1f}-{s['max']:.1f})"
    for threads in (s["threads"] for s in result["settings"] if not s["beside"]):
        for way, pages in (("resident", "huge"), ("mapped", "page cache")):
            mine = [run for run in select(result["runs"], contestant="khop", what="features", way=way,
                                          setting={"threads": threads, "beside": ""}) if "gather_gb_per_s" in run]
            if mine:
                lines.append(f"| khop, {way} | {threads} | {pages} | "
                             f"{median_spread([r['gather_gb_per_s'] for r in mine])} "
                             f"| {median_spread([r['memcpy_gb_per_s'] for r in mine])} |")
    for run in result["index_select"]:
        for row in run["results"]:
            lines.append(f"| index_select, {row['row_bytes']} bytes a row | {run['threads']} | {row['pages']} | "
                         f"{spread(row['gather_gb_per_s'])} | {spread(row['memcpy_gb_per_s'])} |")
    return lines


BESIDE = {"": "", "last": ", beside a neighbour on the last core", "all": ", beside a neighbour on each core"}


def title_of(setting):
    return f"{setting['threads']} thread{'s' * (setting['threads'] > 1)}{BESIDE[setting['beside']]}"


def ahead_table(result):
    """How many times as long DGL takes with float32 and rows, by khop's ways."""
    found = {title_of(s): best_ways(result["runs"], what="features", setting=s) for s in result["settings"]}
    ways = dict.fromkeys(way for of in found.values() for name, way in of if name == "khop" and "degree" in way)
    lines = ["| | " + " | ".join(found) + " |", "|---" * (1 + len(found)) + "|"]
    for way in ways:
        cells = []
        for of in found.values():
            dgl = next((mine for (name, _), mine in of.items() if name == "DGL"), [])
            ahead = ratios(dgl, of.get(("khop", way), []))
            cells.append(median_spread(ahead) if ahead else "")
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return lines


def swap_table(result):
    """How many times as long PyG's own loader takes as khop.pyg's in its place."""
    found = {title_of(s): s for s in result["settings"]}
    lines = ["| | " + " | ".join(found) + " |", "|---" * (1 + len(found)) + "|"]
    for what, title in (("sampling", "sampling"), ("features", "with rows")):
        cells = []
        for setting in found.values():
            ways = best_ways(result["runs"], what=what, setting=setting)
            of = {name: mine for (name, _), mine in ways.items()}
            ahead = ratios(of.get("PyG", []), of.get("khop.pyg", []))
            cells.append(median_spread(ahead) if ahead else "")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def markdown(result):
    machine, work, runs = result["machine"], result["workload"], result["runs"]
    versions = "; ".join(f"{peer}: " + ", ".join(f"{k} {v}" for k, v in v.items()) for peer,
                         v in result["versions"].items())
    ways = "; ".join(f"{peer}: " + ", ".join(dict.fromkeys(r["way"] for r in select(runs, contestant=peer)))
                     for peer in result["versions"])
    rounds = "; ".join(f"{len({r['round'] for r in runs if r['setting'] == s})} with {title_of(s)}"
                       for s in result["settings"])
    loaded = (f"; {result['note']}." if result.get("note") else
              ": the machine was busy with other work, and the times are not to be trusted."
              if result["load_before"] > BUSY else ".")
    lines = [
        "# Mini-batches on the CPU: khop and its peers", "",
        "Written by `make bench-peers`; every measurement is in [cpu.json](cpu.json).", "",
        "![Time of a batch and memory, beside DGL, GraphBolt and PyG](cpu.svg)", "",
        "## How it was measured", "",
        f"- {result['date']}, {'virtual machine, ' if machine['virtual'] else ''}{machine['cpus']} x {machine['cpu']}, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB, Linux {machine['kernel']}, transparent huge pages "
        f"{machine['huge_pages']}. khop {result['commit'][:12]}"
        f"{' with changes that are not committed' if result['modified'] else ''}, {result['go']}. {versions}.",
        f"- {work['dataset']} (`khop generate products`): {work['nodes']:,} nodes, {work['edges']:,} edges; fan-outs "
        f"{', '.join(map(str, work['fanouts']))}, {work['batch_size']:,} seeds a batch, 100 float32 features a node.",
        f"- Contestants take turns, {work['batches']} timed batches a round after {work['warmup']}. Rounds: {rounds}. "
        "A cell is the median over the rounds (lowest-highest); ratios are formed round by round. Load average before: "
        f"{result['load_before']:.1f}{loaded}",
        *["- A neighbour is a process that copies 256 MB to and fro all the time."][:any(s["beside"] for s in
                                                                                      result["settings"])],
        f"- Peers hold graph and features in their own memory, on huge pages, and malloc keeps what is freed. The "
        f"fastest way of each counts ({ways}).",
        "- khop *resident* holds both in huge-page memory, too; *mapped* reads files through the warm page cache, "
        "which does not count as its memory. *degree* is a dataset that was converted with `--reorder degree`; narrow "
        "rows are delivered as they are stored. *new* expands only the nodes that are new at a hop, as PyG does. "
        "*Times* is how many times as long a peer takes as khop, resident, and PyG and khop.pyg as khop, resident, "
        "new. *khop.pyg* is PyG's script with one import changed: batches are torch's tensors.",
        "",
        "## Sampling", "", "Milliseconds a batch:", "", *speed_table(result, "sampling"), "",
        "## Sampling and feature rows", "", "Milliseconds a batch; the memory is that of the leftmost cell:", "",
        *speed_table(result, "features"), "",
        "How many times as long as khop with *degree* DGL takes with float32:", "", *ahead_table(result), "",
        *(["How many times as long PyG's loader takes as khop.pyg's in its place:", "", *swap_table(result), ""]
          if "khop.pyg" in result["versions"] else []),
        "## The limit", "",
        "The limit is the time in which the machine reads as many lines at random places, and copies as many bytes, as "
        "khop's batch needs (`khop bench --limit`). The share of it that is reached, sampling and with rows:", "",
        *limit_table(result), "",
    ]
    gather = gather_table(result)
    lines += ["Rows alone:", "", *gather, ""] if len(gather) > 2 else []
    lines += ["## What was sampled", "", "Means a batch; the contest fails where two differ by more than 1 %.", "",
              *count_table(runs), ""]
    prose = lambda line: line and line[0] not in "|!#"
    wrap = lambda line: textwrap.fill(line, 119, subsequent_indent="  " * line.startswith("- "),
                                      break_on_hyphens=False, break_long_words=False)
    return "\n".join(wrap(line) if prose(line) else line for line in lines)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    print(markdown(json.loads((folder / "cpu.json").read_text())), end="")
