"""No leak: drawn databases, tasks and options, and every batch held against an oracle in plain Python.

The oracle knows the tables as they were written. Of each batch it checks that each node and edge is of the tables and
no later than its seed allows, and that each node has all of its eligible neighbours, as many as it was to have, or the
latest ones. KHOP_DRAWS says how many cases are drawn, and KHOP_DRAW_SEED from what.
"""
import collections
import dataclasses
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest

import khop
from conftest import run
from khop._native import library as _library

DRAWS = int(os.environ.get("KHOP_DRAWS", "40"))
SEED = int(os.environ.get("KHOP_DRAW_SEED", "20261126"))
CASES = 20  # of each database
DAY, NEVER = 86400, -2**63
JANUARY = 1704067200  # 2024-01-01
DIST = pathlib.Path(__file__).parents[3] / "dist"
ON_DEVICE, DRIVER = DIST / "khop-cuda", DIST / "libcudasim.so"  # the simulated device
PROCESS = "server" if _library.why_not() else "inside"


@dataclasses.dataclass
class Table:
    name: str
    timed: bool
    fkeys: dict  # column -> table
    times: list  # of rows: seconds, None where missing
    keys: dict  # column -> rows of the other table, None where missing, -1 where no row is named


def draw_tables(draw):
    """Tables that name each other and themselves, with rows in the order of time or in none."""
    names = [f"t{i}" for i in range(draw.randint(1, 4))]
    rows = {name: draw.randint(1, 25) for name in names}
    tables = []
    for name in names:
        timed = draw.random() < .75
        times = [draw.randint(0, 12) * DAY // 2 + JANUARY if draw.random() > .05 else None for _ in range(rows[name])]
        if draw.random() < .5:
            times.sort(key=lambda time: NEVER if time is None else time)
        fkeys = {f"to{k}": draw.choice(names) for k in range(draw.randint(name == names[0], 2))}
        keys = {column: [draw.choice([None, -1, *[draw.randrange(rows[to]) for _ in range(8)]])
                         for _ in range(rows[name])] for column, to in fkeys.items()}
        tables.append(Table(name, timed or name == names[-1], fkeys, times, keys))
    return tables


def write_database(folder, tables, task):
    """The tables, and those of a task: rows of (row of the first table, time, label)."""
    (folder / "tasks/next").mkdir(parents=True)
    manifest = "name: drawn\nval_timestamp: '2024-01-03'\ntest_timestamp: '2024-01-05'\ntables:\n"
    for t in tables:
        fkeys = ", ".join(f"{column}: {to}" for column, to in t.fkeys.items())
        manifest += f"  {t.name}: {{pkey: key, time_col: {'at' if t.timed else 'null'}, fkeys: {{{fkeys}}}}}\n"
        text = ",".join(["key", *(["at"] if t.timed else []), *t.fkeys, "value"]) + "\n"
        for row in range(len(t.times)):
            cells = [f"k{row}"]
            if t.timed:
                cells.append("" if t.times[row] is None else stamp(t.times[row]))
            for column in t.fkeys:
                to = t.keys[column][row]
                cells.append("" if to is None else "none" if to < 0 else f"k{to}")
            text += ",".join([*cells, str(row / 4)]) + "\n"
        (folder / f"{t.name}.csv").write_text(text)
    (folder / "manifest.yaml").write_text(manifest)
    (folder / "tasks/next/manifest.yaml").write_text(
        f"name: next\nkind: external\ntask_type: regression\nentity_table: {tables[0].name}\nentity_col: key\n"
        "target_col: y\ntime_col: at\n")
    for split, rows in task.items():
        (folder / f"tasks/next/{split}.csv").write_text(
            "at,key,y\n" + "".join(f"{stamp(time)},k{row},{label}\n" for row, time, label in rows))


def stamp(seconds):
    return str(np.datetime64(seconds, "s")).replace("T", " ")


def in_edges(tables):
    """For each edge type its (source, target) pairs by target, in no order."""
    edges = {}
    for t in tables:
        for column, to in t.fkeys.items():
            forth = edges[t.name, f"f2p_{column}", to] = collections.defaultdict(list)
            back = edges[to, f"rev_f2p_{column}", t.name] = collections.defaultdict(list)
            for row, other in enumerate(t.keys[column]):
                if other is not None and other >= 0:
                    forth[other].append(row)
                    back[row].append(other)
    return edges


def draw_options(draw):
    hops = draw.randint(1, 3)
    o = dict(fanouts=[draw.choice([-1, -1, 1, 2, 4]) for _ in range(hops)], disjoint=draw.random() < .7,
             batch_size=draw.randint(1, 9), seed=draw.randrange(2**32), shuffle=draw.random() < .5)
    if draw.random() < .6:
        o["time_rules"] = [draw.choice(["not-after", "before", "any"]) for _ in range(draw.randint(1, hops))]
    if draw.random() < .4:
        o["window"] = draw.randint(1, 4 * DAY)
    o.update(draw.choice([{}, {"recent": True}, {"half_life": float(DAY)}, {"replace": True}]))
    if draw.random() < .3:
        o["chain"] = True
    return o


def count(of):
    return sum(of.values())


class Oracle:
    def __init__(self, tables, options):
        self.tables = {t.name: t for t in tables}
        self.edges, self.options = in_edges(tables), options

    def time(self, table, row):
        """The time of a row; None for one of a table without times."""
        t = self.tables[table]
        return None if not t.timed else NEVER if t.times[row] is None else t.times[row]

    def may(self, hop, as_of, table, row):
        """Whether a row may be reached."""
        rules = self.options.get("time_rules", ["not-after"])
        rule, at, window = rules[min(hop, len(rules) - 1)], self.time(table, row), self.options.get("window", 0)
        if at is None or rule == "any":
            return True
        late = at >= as_of if rule == "before" else at > as_of
        return not late and not (window and at < as_of - window and as_of - window >= NEVER)

    def check(self, batch):
        """Every entry of a batch, and what each was reached by."""
        array, options, fanouts = batch.array, self.options, self.options["fanouts"]
        reached = array("num_nodes")  # [hops + 1][types]
        types = list(batch.node_types)
        nodes = {of: array(f"nodes/{of}") for of in types}
        times = {of: array(f"sample/time/{of}") for of in types}
        trees = {of: array(f"sample/tree/{of}") for of in types} if options.get("disjoint") else None
        for of in types:
            assert len(nodes[of]) == reached[-1][types.index(of)]
            entries = zip(nodes[of].tolist(), times[of].tolist(), trees[of].tolist() if trees else [0] * len(nodes[of]))
            assert max(collections.Counter(entries).values(), default=1) == 1, "a row once for each time and tree"
        for kind in batch.edge_types:
            source, _, target = kind
            name = f"block/0/{':'.join(kind)}"
            indptr, indices = array(f"{name}/indptr"), array(f"{name}/indices")
            for d in range(len(indptr) - 1):
                hop = next(h for h, counts in enumerate(reached) if d < counts[types.index(target)])
                as_of, here = int(times[target][d]), indices[indptr[d]:indptr[d + 1]]
                for s in here:
                    row = int(nodes[source][s])
                    step = self.time(source, row) if options.get("chain") else None
                    assert times[source][s] == (as_of if step is None else step), (kind, row, as_of)
                    assert trees is None or trees[source][s] == trees[target][d]
                picked = collections.Counter(nodes[source][here].tolist())
                all_of = self.edges[kind][int(nodes[target][d])]
                eligible = collections.Counter(r for r in all_of if self.may(hop, as_of, source, r))
                self.check_picks(kind, hop, as_of, picked, eligible)

    def check_picks(self, kind, hop, as_of, picked, eligible):
        """The picks of a row against the neighbours that it may have."""
        k, replace = self.options["fanouts"][hop], self.options.get("replace", False)
        about = (kind, hop, as_of, dict(picked), dict(eligible))
        assert set(picked) <= set(eligible), ("a leak, or an edge that is not there", about)
        if k == -1:
            assert picked == eligible, ("a neighbour is missing", about)
        elif replace:
            assert count(picked) == (k if eligible else 0), about
        else:
            assert not picked - eligible and count(picked) == min(k, count(eligible)), about
            if self.options.get("recent"):
                def age(row):
                    at = self.time(kind[0], row)
                    return as_of if at is None else at
                latest = sorted(map(age, eligible.elements()))[-count(picked):] if picked else []
                assert sorted(map(age, picked.elements())) == latest, about


def draw_task(draw, tables):
    rows = len(tables[0].times)
    return {split: [(draw.randrange(rows), draw.randint(0, 14) * DAY // 2 + JANUARY, draw.randrange(9))
                    for _ in range(draw.randint(1, 30))] for split in ("train", "val", "test")}


def digest_of(batches):
    return [batch.digest() for batch in batches]


def flags(options):
    """The options as they are on the command line."""
    for name, value in options.items():
        name = name.replace("_", "-")
        if isinstance(value, list):
            yield f"--{name}={','.join(map(str, value))}"
        elif value is True:
            yield f"--{name}"
        elif value is not False:
            yield f"--{name}={value}"


def told(path, split, options, *device):
    """What the program for devices says of the batches."""
    return subprocess.run(
        [ON_DEVICE, "sample", path, "--sampler=temporal", "--node-time=time", f"--seeds=task:next:{split}", "--digest",
         *flags(options), *device],
        check=True, capture_output=True, env={**os.environ, "KHOP_CUDA_DRIVER": str(DRIVER)}).stdout


def load(path, split, options, **more):
    return khop.Loader(path, sampler="temporal", node_time="time", seeds=f"task:next:{split}", framework="numpy",
                       **{"process": PROCESS, **options, **more})


BLIND = "neighbor", "labor", "fastgcn", "ladies", "hgt", "shadow", "induced"


def check_blind(path, draw, split):
    """Samplers that do not look at times are refused."""
    blind, process = draw.choice(BLIND), draw.choice([PROCESS, "server"])
    with pytest.raises(khop.OptionError, match="times.*temporal"):
        khop.Loader(path, sampler=blind, seeds=f"task:next:{split}", process=process).close()


def case(path, draw, tables, task, number):
    options, split = draw_options(draw), draw.choice(sorted(task))
    try:
        oracle, got, seen = Oracle(tables, options), [], []
        with load(path, split, options, workers=1) as loader:
            for batch in loader:
                oracle.check(batch)
                got.append(batch.digest())
                ids = batch[tables[0].name].input_id.tolist()
                seen += ids
                rows = [task[split][i] for i in ids]
                assert batch.seed_time.tolist() == [time for _, time, _ in rows]
                assert batch.label.tolist() == [label for _, _, label in rows]
                at = batch[tables[0].name]
                assert at.n_id[at.seeds].tolist() == [row for row, _, _ in rows]
        assert sorted(seen) == list(range(len(task[split])))
        with load(path, split, options, workers=3) as loader:
            assert digest_of(loader) == got, "other batches with other workers"
        if number % 4 == 0:
            check_blind(path, draw, split)
        if number % 5 == 0:
            ranked = []
            for rank in range(2):
                with load(path, split, options, rank=rank, world_size=2) as loader:
                    for batch in loader:
                        oracle.check(batch)
                        ranked += batch[tables[0].name].input_id.tolist()
            assert set(ranked) == set(seen), "ranks together have each seed"
        if number % 10 == 0 and ON_DEVICE.exists() and DRIVER.exists():
            assert told(path, split, options, "--device=cuda:0") == told(path, split, options, "--device=cpu")
    except Exception as e:
        raise AssertionError(f"KHOP_DRAW_SEED={SEED}, case {number}: {split}, {options}") from e


@pytest.mark.parametrize("part", range(3))
def test_no_batch_knows_the_future(program, tmp_path, part):
    number = 0
    for database in range(part, -(-DRAWS // CASES), 3):
        draw = random.Random(f"{SEED} {database}")
        tables = draw_tables(draw)
        task = draw_task(draw, tables)
        folder = tmp_path / str(database)
        write_database(folder, tables, task)
        done = khop._native.program.call(["convert", str(folder), f"{folder}.khop", "--upto", "all"], program)
        done.check()
        without = [f'the rows of "{t.name}" ({len(t.times)}) have no times: batches of any time may have them'
                   for t in tables if not t.timed]
        assert [note for note in done.notes() if "no times" in note] == without
        for number in range(database * CASES, min((database + 1) * CASES, DRAWS)):
            case(f"{folder}.khop", draw, tables, task, number)
