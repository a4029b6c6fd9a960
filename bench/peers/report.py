#!/usr/bin/env python3
"""The tables of a contest. `report.py cpu.json > cpu.md` writes them again from the measurements."""
import json
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


def speed_table(runs, what, setting):
    ways = best_ways(runs, what=what, setting=setting)
    ways |= {(name, way + ", float16"): mine for (name, way), mine in
             best_ways(runs, what="float16", setting=setting).items() if what == "features"}
    dgl = next((mine for (name, way), mine in ways.items() if name == "DGL"), [])
    lines = ["| | ms a batch | M edges/s | share of the limit | ÷ khop, resident | ÷ khop, mapped | DGL ÷ it "
             "| memory, GB |", "|---|---|---|---|---|---|---|---|"]
    for (name, way), mine in ways.items():
        frontier = mine[0]["frontier"]
        edges = statistics.median(sum(run["edges_per_hop"]) / run["ms"] / 1e3 for run in mine)
        against = []
        for reference in (REFERENCE[frontier], "mapped"):
            base = ways.get(("khop", reference))
            usable = base and base[0]["frontier"] == frontier and base is not mine
            against.append(median_spread(ratios(mine, base)) if usable else "")
        reached = shares(mine, mine if name == "khop" else ways.get(("khop", REFERENCE[frontier])))
        ahead = ratios(dgl, mine) if name == "khop" and frontier == "all" else []
        memory = max(run.get("anon_bytes", 0) for run in mine) / 1e9
        lines.append(f"| {name}, {way} | {median_spread([r['ms'] for r in mine])} | {edges:.1f} | "
                     f"{median_spread(reached, 2) if reached else ''} | {against[0]} | {against[1]} | "
                     f"{median_spread(ahead) if ahead else ''} | {memory:.1f} |")
    return lines


def count_table(runs):
    lines = ["| | frontier | edges, hop 1, 2, 3 | nodes after hop 1, 2, 3 |", "|---|---|---|---|"]
    means = lambda group, key: ", ".join(f"{statistics.fmean(h):,.0f}" for h in zip(*(run[key] for run in group)))
    for name in dict.fromkeys((run["contestant"], run["frontier"]) for run in runs):
        group = select(runs, contestant=name[0], frontier=name[1])
        lines.append(f"| {name[0]} | {name[1]} | {means(group, 'edges_per_hop')} | {means(group, 'nodes_per_hop')} |")
    return lines


def gather_table(result):
    lines = ["| | threads | bytes a row | pages | gather, GB/s | memcpy, GB/s |", "|---|---|---|---|---|---|"]
    spread = lambda s: f"{s['median']:.1f} ({s['min']:.1f}-{s['max']:.1f})"
    for threads in (s["threads"] for s in result["settings"] if not s["beside"]):
        for way, pages in (("resident", "huge"), ("mapped", "page cache")):
            mine = [run for run in select(result["runs"], contestant="khop", what="features", way=way,
                                                setting={"threads": threads, "beside": ""})
                    if "gather_gb_per_s" in run]
            if mine:
                lines.append(f"| khop, {way} | {threads} | dataset's | {pages} | "
                             f"{median_spread([r['gather_gb_per_s'] for r in mine])} "
                             f"| {median_spread([r['memcpy_gb_per_s'] for r in mine])} |")
    for run in result["index_select"]:
        for row in run["results"]:
            lines.append(f"| index_select | {run['threads']} | {row['row_bytes']} | {row['pages']} | "
                         f"{spread(row['gather_gb_per_s'])} "
                         f"| {spread(row['memcpy_gb_per_s'])} |")
    return lines


BESIDE = {"": "", "last": ", beside a neighbour on the last core", "all": ", beside a neighbour on each core"}


def title_of(setting):
    return f"{setting['threads']} thread{'s' * (setting['threads'] > 1)}{BESIDE[setting['beside']]}"


def ahead_table(result):
    """How many times as long DGL takes with float32 and rows, by khop's ways."""
    found = {title_of(s): best_ways(result["runs"], what="features", setting=s) for s in result["settings"]}
    ways = dict.fromkeys(way for of in found.values() for name, way in of if name == "khop" and "new" not in way)
    lines = ["| | " + " | ".join(found) + " |", "|---" * (1 + len(found)) + "|"]
    for way in ways:
        cells = []
        for of in found.values():
            dgl = next((mine for (name, _), mine in of.items() if name == "DGL"), [])
            ahead = ratios(dgl, of.get(("khop", way), []))
            cells.append(median_spread(ahead) if ahead else "")
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return lines


def markdown(result):
    machine, work, runs = result["machine"], result["workload"], result["runs"]
    versions = "; ".join(f"{peer}: " + ", ".join(f"{k} {v}" for k, v in v.items()) for peer,
                         v in result["versions"].items())
    lines = [
        "# Mini-batches on the CPU: khop and its peers", "",
        "Written by `make bench-peers`; every measurement is in [cpu.json](cpu.json).", "",
        f"- {result['date']}, {'virtual machine, ' if machine['virtual'] else ''}{machine['cpus']} x {machine['cpu']}, "
        f"{machine['memory_bytes'] / 1e9:.0f} GB, Linux {machine['kernel']}, transparent huge pages "
        f"{machine['huge_pages']}.",
        f"- khop {result['commit'][:12]}{' with changes that are not committed' if result['modified'] else ''}, "
        f"{result['go']}. {versions}.",
        f"- {work['dataset']}: {work['nodes']:,} nodes, {work['edges']:,} edges; fan-outs {list(work['fanouts'])} out "
        f"of the seeds, "
        f"{work['batch_size']} seeds a batch, the train split in order.",
        f"- {work['batches']} timed batches a round (PyG a sixth) after {work['warmup']} that are not. Rounds, in "
        "which the contestants take turns: "
        + "; ".join(f"{len({r['round'] for r in runs if r['setting'] == s})} with {title_of(s)}"
                    for s in result["settings"])
        + ". A cell is the median over the rounds (lowest-highest); the "
        f"ratios are formed round by round. Load average before: {result['load_before']:.1f}"
        + (f"; {result['note']}." if result.get("note") else
           ": the machine was busy with other work, and the times are not to be trusted."
           if result["load_before"] > BUSY else "."),
        "- A neighbour is a process that copies 256 MB to and fro all the time.",
        "- Peers hold the graph and the features in their own memory on huge pages, with malloc told to keep what it "
        "frees ("
        + ", ".join(f"`{k}={v}`" for k, v in result["peers_environment"].items())
        + "), in the fastest of their ways that were tried.",
        "- khop *resident* holds them in huge-page memory too; *mapped* reads the files through the page cache, which "
        "is warm, and "
        "counts in memory only what is its own. *degree*, and what else `--reorder` names, is of the dataset converted "
        "anew in that order; narrow rows are delivered as they are stored. *DGL ÷ it* is how many times as long DGL "
        "takes with float32. *share of the limit* is the time in which the machine reads as many "
        "lines at random places, and copies as many bytes, as khop's batch needs (`khop bench --limit`), by the time "
        "of a batch. *new* expands only the nodes that are new at a hop, as PyG does.", "",
    ]
    lines += ["## With feature rows, DGL with float32 ÷ khop", "", *ahead_table(result), ""]
    for what, title in (("sampling", "Sampling"), ("features", "Sampling and feature rows")):
        for setting in result["settings"]:
            lines += [f"## {title}, {title_of(setting)}", "", *speed_table(runs, what, setting), ""]
    lines += ["## What was sampled", "", "Means a batch; the contest fails where two differ by more than 1 %.", "",
              *count_table(runs), "",
              "## Feature rows alone", "", *gather_table(result), ""]
    wrap = lambda line: textwrap.fill(line, 119, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(wrap(line) if line.startswith("- ") else line for line in lines)


if __name__ == "__main__":
    print(markdown(json.load(open(sys.argv[1]))), end="")
