"""Tables for people, and what the results say of khop's claims. "report.py FILE" prints those of an object that run has
written."""
import json
import pathlib
import statistics
import sys


def usable(state, phase, step):
    """A step's result; None where it was not run, skipped or failed."""
    r = state.get(phase, {}).get(step)
    return None if r is None or "failed" in r or "skipped" in r and isinstance(r["skipped"], str) else r


def peers(state, phase):
    """The usable results of PyG, by the number of its workers."""
    return {step[4:]: r for step in state.get(phase, {}) if step.startswith("pyg-")
            and (r := usable(state, phase, step))}


def pyg(found):
    """What PyG's best is the best of."""
    return f"PyG at its best (workers: {', '.join(found)})" if found else "PyG at its best"


def no_peer(state, phase):
    """Why there is no result of PyG; None where there is one, or it was not its turn yet."""
    steps = {step: r for step, r in state.get(phase, {}).items() if step.startswith("pyg-")}
    return None if peers(state, phase) else next((r.get("failed") or r["skipped"] for r in steps.values()), None)


def no_figure(state, phase):
    """Why a figure of a phase is missing: what was not run, skipped or failed."""
    steps = state.get(phase, {})
    why = [f"{step}: {' '.join((r.get('failed') or r['skipped']).split())[:150]}" for step, r in steps.items()
           if "failed" in r or isinstance(r.get("skipped"), str)]
    return "; ".join(why[:3]) or ("steps that it needs were not run" if steps else "the phase was not run")


VERDICTS = {True: "held", False: "not held", None: "not measured"}


def ways(result):
    return {w["way"]: w for w in result["ways"]} if result else {}


def claims(phase, state):
    """What was to be shown: a claim with the wanted and the measured value. Measured is None where a figure is
    missing."""
    found = []

    def claim(text, wanted, measured, holds, why=None):
        held = None if measured is None else bool(holds(measured))
        found.append({"claim": text, "wanted": wanted, "measured": measured, "holds": held, "verdict": VERDICTS[held]})
        if measured is None:
            found[-1]["why"] = why or no_figure(state, phase)

    def ratio(a, b, key):
        return a[key] / b[key] if a and b else None

    if phase == "gather":
        cells = [(c["of_model"], f"{step}: {c['row_bytes']} B at {c['offset']}") for step in state.get(phase, {})
                 for c in (usable(state, phase, step) or {}).get("cells", ()) if c["method"] == "per-row"
                 and c["row_bytes"] >= 128 and not c["blocks"]]
        worst = min(cells, default=(None, "no cell"))
        claim(f"gather over the bus, share of the model, worst cell of 128 B and more ({worst[1]})", ">= 0.95",
              worst[0], lambda v: v >= 0.95)
        own, copied = (rates(usable(state, phase, step)) for step in ("file 8 GiB", "file 8 GiB, copied"))
        worst = min(((own[at] / copied[at], f"{at} B") for at in own if at in copied), default=(None, "no row"))
        claim(f"gather from the pages of a file of 8 GiB / from a copy on huge pages, worst rows of 128 B and more "
              f"({worst[1]})", ">= 0.90", worst[0],
              lambda v: v >= 0.9)
    if phase == "sampling":
        card, bus, random = (usable(state, phase, s) for s in ("card", "bus", "random reads"))
        claim("sampling with the topology on the card, edges/s", ">= 0.7e9", card and card["edges_per_s"],
              lambda v: v >= 0.7e9)
        share = random["ms_per_batch"] / (bus["seconds"] / bus["batches"] * 1e3) if random and bus else None
        new = usable(state, phase, "card, new")  # the edges that PyG draws
        found_peers = peers(state, phase)
        peer = max(found_peers.values(), key=lambda r: r["edges_per_s"], default=None)
        threads = peer["threads"] if peer else 16
        claim(f"sampling with the topology on the card / {pyg(found_peers)} on {threads} threads in all, edges/s",
              ">= 10", ratio(new, peer, "edges_per_s"),
              lambda v: v >= 10, no_peer(state, phase))
        claim("sampling over the bus, share of random reads of as many sectors", ">= 0.70", share, lambda v: v >= 0.7)
    if phase == "transfer":
        khop, torch = ways(usable(state, phase, "khop")), ways(usable(state, phase, "torch"))
        plain = min((w for w in (khop.get("cpu, unpipelined"), torch.get("torch, unpipelined")) if w),
                    key=lambda w: w["ms_per_batch"], default=None)
        piped = min((w for w in (khop.get("cpu, pipelined"), torch.get("torch, pipelined")) if w),
                    key=lambda w: w["ms_per_batch"], default=None)
        claim("transfer time over the bus / CPU-centric, unpipelined", "<= 0.60",
              ratio(khop.get("bus"), plain, "ms_per_batch"), lambda v: v <= 0.6)
        claim("transfer time over the bus / CPU-centric, pipelined", "<= 1.05",
              ratio(khop.get("bus"), piped, "ms_per_batch"), lambda v: v <= 1.05)
        bus = khop.get("bus")
        busy = bus["cpu_ms_per_batch"] / bus["ms_per_batch"] if bus and bus["cpu_ms_per_batch"] is not None else None
        claim("processors that transfer over the bus keeps busy", "<= 0.1", busy, lambda v: v <= 0.1)
        claim("transfer time with 20 % of the rows cached / CPU-centric, unpipelined", "<= 0.30",
              ratio(khop.get("bus, cached"), plain, "ms_per_batch"), lambda v: v <= 0.3)
    if phase == "training":
        way = "khop-bus" if usable(state, phase, "khop-bus") else "khop-cpu"
        own, staged, bus = usable(state, phase, way), usable(state, phase, "staged"), usable(state, "gather",
                                                                                             "file 1 GiB")
        centric = [r for r in (usable(state, phase, s) for s in {"select", "khop-cpu"} - {way}) if r]
        found_peers = peers(state, phase)
        best = lambda runs: min(runs, key=lambda r: r["ms_per_batch"], default=None)
        least = own and staged and bus and {"ms_per_batch": max(
            staged["ms_per_batch"], own["nodes_per_batch"] * own["row_bytes"] / bus["bus"]["in_order_gb_per_s"] / 1e6)}
        claim(f"a step by {way} / the greater of the model alone and its rows' bytes in order over the bus", "<= 1.10",
              ratio(own, least, "ms_per_batch"), lambda v: v <= 1.1)
        claim(f"{pyg(found_peers)} / {way}", ">= 8", ratio(best(found_peers.values()), own, "ms_per_batch"),
              lambda v: v >= 8, no_peer(state, phase))
        claim(f"the best CPU-centric pipeline / {way}", ">= 1.6", ratio(best(centric), own, "ms_per_batch"),
              lambda v: v >= 1.6)
        metered = own and best(centric) and own["board_joules"] and best(centric)["board_joules"]
        claim(f"board energy of {way} / of that pipeline", "<= 0.75",
              ratio(own, best(centric), "board_joules_per_batch") if metered else None, lambda v: v <= 0.75,
              own and own.get("not_measured", {}).get("board"))
    if phase == "ops":
        khop, torch = (usable(state, phase, s) for s in ("khop", "torch"))
        own = {(c["graph"], c["width"]): c["seconds"][1] for c in khop["cells"]
               if c["operation"] == "weighted sum"} if khop else {}
        peer = fastest(torch)
        both = [peer[at] / own[at] for at in own if at in peer]
        why = (state.get(phase, {}).get("torch") or {}).get("skipped")
        claim("product of a graph or block with a dense matrix: the fastest of torch and cupy / khop, geometric mean "
              "over widths", ">= 1",
              statistics.geometric_mean(both) if both else None, lambda v: v >= 1, why)
    return found


def rates(result):
    """GB/s of khop's gather, by bytes of a row."""
    return {c["row_bytes"]: c["gb_per_s"] for c in (result or {}).get("cells", []) if c["method"] == "per-row"
            and c["row_bytes"] >= 128}


def fastest(peers):
    """The fastest peer's seconds, by graph and width."""
    least = {}
    for c in peers["cells"] if peers else ():
        at = c["graph"], c["width"]
        least[at] = min(least.get(at, c["seconds"][1]), c["seconds"][1])
    return least


def table(phase, result):
    """Prints a phase for people, on standard error."""
    p, out = result["phases"][phase], sys.stderr
    mark = ("SIMULATED: the figures mean nothing" if result["simulated"]
            else "tiny sizes: the figures mean little" if result["smoke"] else "")
    print(f"\n== {phase}{'' if p['complete'] else ' (not done yet)'} {mark}", file=out)
    for step, r in p["steps"].items():
        if "failed" in r:
            print(f"  {step}: FAILED: {' '.join(r['failed'].split())[:300]}", file=out)
        elif isinstance(r.get("skipped"), str):
            print(f"  {step}: not run: {r['skipped']}", file=out)
        else:
            for line in LINES[phase](step, r):
                print("  " + line, file=out)
    for c in p["claims"]:
        verdict = c["verdict"] if c["holds"] is None or not result["simulated"] else "simulated"
        value = "" if c["measured"] is None else f"{c['measured']:.3g}, "
        why = f" ({c['why'].splitlines()[0][:150]})" if "why" in c else ""
        print(f"  {c['claim']}: {value}wanted {c['wanted']}: {verdict}{why}", file=out)
    out.flush()


def machine_lines(step, r):
    if step == "doctor":
        d = r["cuda"]["devices"][0]
        yield f"{d['name']}, compute {d['compute']}, {d['sms']} SMs, CUDA {r['cuda']['driver']}, " \
              f"link {d['pci']['link'] or '?'}"
        yield " ".join(f"{k}={v}" for k, v in d["attributes"].items())
        for a in r["arrays"]:
            yield f"{a['array']:28} {a['rung']}"
    elif step.startswith("tests"):
        yield f"{step:36} {r['passed']} passed" + (f", {len(r['skipped'])} need more devices" if r["skipped"] else "")
    elif step.startswith("same"):
        yield f"{step}: {r['batches']} batches, byte for byte"
    else:
        yield f"{step}: {r['summary'][-1] if r['summary'] else 'done'}"


def gather_lines(step, r):
    if step == "chosen pages":
        for a in r["placed"]:
            if "pages" in a:
                yield f"{step}: {a['array']}, {a['rung']}: {a['pages']['why']}"
        return
    bus, memory = r["bus"], r["memory"]
    yield (f"{step}: {memory['rung']}; in order {bus['in_order_gb_per_s']:.1f} GB/s with {bus['blocks']} blocks, copy "
           f"engine {bus['copy_gb_per_s']:.1f}, "
           f"link {bus['link_gb_per_s']:.1f}, {bus['requests_m_per_s']:.0f} million requests/s over "
           f"{memory['bytes'] / 2**30:.3g} GiB")
    methods = " ".join(f"{m:>14}" for m in ("per-row", "sorted", "shift", "naive"))
    yield f"    {'bytes':>6} {'at':>4} {'blocks':>6} {'model':>7} {methods}   GB/s, share of the model"
    rows = {}
    for c in r["cells"]:
        rows.setdefault((c["row_bytes"], c["offset"], c["blocks"] or ""), {})[c["method"]] = c
    for (width, offset, blocks), by in rows.items():
        yield f"    {width:6} {offset:4} {blocks:6} {by['per-row']['model_gb_per_s']:7.2f} " + " ".join(
            f"{by[m]['gb_per_s']:8.2f} {by[m]['of_model']:4.0%} " for m in ("per-row", "sorted", "shift", "naive")
            if m in by)


def sampling_lines(step, r):
    if step.startswith("pyg-"):
        yield f"{step}: {r['edges_per_s'] / 1e6:.1f} million edges/s, {r['ms_per_batch']:.1f} ms a batch, " \
              f"on {r['threads']} threads"
        return
    if step == "random reads":
        yield f"{step}: {r['m_reads_per_s']:.0f} million/s; as many as a batch makes take {r['ms_per_batch']:.3f} ms"
    else:
        yield f"{step}: {r['edges_per_s'] / 1e6:.1f} million edges/s, " \
              f"{r['seconds'] / r['batches'] * 1e3:.3f} ms a batch; {energy(r['meters'], r['batches'])}"


def transfer_lines(step, r):
    for w in r["ways"]:
        cpu = "?" if w["cpu_ms_per_batch"] is None else f"{w['cpu_ms_per_batch']:.2f}"
        yield f"{w['way']:20} {w['ms_per_batch']:9.3f} ms a batch, {w['gb_per_s']:6.2f} GB/s, {cpu} ms of " \
              "processors; " + energy(
            w.get("meters", w), w.get("batches", 1) if "meters" not in w
            else w["meters"]["seconds"] / w["ms_per_batch"] * 1e3)


def training_lines(step, r):
    yield f"{step:10} {r['ms_per_batch']:9.2f} ms a batch, {r['cpu_ms_per_batch']:.1f} ms of processors; " \
          f"{energy(r, r['batches'])}"


def ops_lines(step, r):
    if step == "kinds":
        yield f"{step}: {len(r['results'])} settings on {r['device']}, a copy moves {r['copy_gb_per_s']:.0f} GB/s"
        for finding in r["findings"]:
            yield "    " + finding
        return
    for c in r["cells"]:
        rates = f", {c['no_reuse']:.0f} GB/s without reuse, {c['at_least']:.0f} at least" if "no_reuse" in c else ""
        yield f"{c.get('peer', 'khop')}: {c['operation']}, {c['graph']}, {c['width']} columns: " \
              f"{1e3 * c['seconds'][1]:.3f} ms{rates}"


def energy(r, batches):
    if r["board_joules"] is None:
        return f"energy not measured ({r['not_measured'].get('board', '?')})"
    return f"{r['board_joules'] / batches:.3f} J a batch"


LINES = {"machine": machine_lines, "gather": gather_lines, "sampling": sampling_lines, "transfer": transfer_lines,
         "training": training_lines, "ops": ops_lines}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        written = json.loads(pathlib.Path(name).read_text())
        for part in written["phases"]:
            table(part, written)
