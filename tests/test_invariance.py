"""A batch does not depend on how it is loaded: workers, prefetch, ranks, where one begins, machine code, placement."""
import os
import platform
import shutil

import pytest

import oracle
from conftest import build, run

OPTIONS = {
    "shuffled": "--fanouts 10,5,3 --batch-size 200 --seed 11 --seeds all --shuffle",
    "new frontier": "--fanouts 10,5,3 --batch-size 200 --seed 11 --seeds all --shuffle --frontier new",
    "with replacement": "--fanouts 10,5 --batch-size 130 --seed 12 --seeds all --epoch 3 --replace",
}
DATASETS = ["sbm", "typed"]
each = pytest.mark.parametrize("options", [pytest.param(o.split(), id=name) for name, o in OPTIONS.items()])
of_each = pytest.mark.parametrize("name", DATASETS)


@each
@of_each
def test_workers_and_prefetch_change_nothing(name, options, dataset, sample):
    want = sample(dataset(name), *options, "--workers", 1, "--prefetch", 1)
    assert [n for n, _ in want] == list(range(len(want))) and len(want) >= 15
    assert len({d for _, d in want}) == len(want)
    for workers in 1, 2, 8:
        for prefetch in 1, 8:
            got = sample(dataset(name), *options, "--workers", workers, "--prefetch", prefetch)
            assert got == want, f"{workers} workers, prefetch {prefetch}"


@each
@of_each
def test_an_epoch_may_begin_anywhere(name, options, dataset, sample):
    want = sample(dataset(name), *options, "--first", 0)
    assert sample(dataset(name), *options, "--first", 10) == want[10:]
    assert sample(dataset(name), *options, "--first", len(want) - 1) == want[-1:]


@each
@of_each
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_an_epoch(name, options, ranks, dataset, sample):
    want = sample(dataset(name), *options)
    parts = [sample(dataset(name), *options, "--rank", r, "--world-size", ranks) for r in range(ranks)]
    rounds = -(-len(want) // ranks)
    assert {len(p) for p in parts} == {rounds}  # the last round is filled with batches from the front
    dealt = [part[i][1] for i in range(rounds) for part in parts]
    assert dealt == [want[m % len(want)][1] for m in range(rounds * ranks)]


@of_each
def test_machine_code_changes_nothing(name, dataset, sample, tmp_path_factory):
    want = {o: sample(dataset(name), *o.split()) for o in OPTIONS.values()}
    for level in levels():
        program = tmp_path_factory.getbasetemp() / ("khop-" + level)
        if not program.exists():
            # By day it has the race detector, with which test.sh has compiled all of it for this level.
            flags, cgo = ([], "0") if os.environ.get("KHOP_TEST_NIGHT") else (["-race"], "1")
            build(program, *flags, GOAMD64=level, CGO_ENABLED=cgo)
        for o in OPTIONS.values():
            assert sample(dataset(name), *o.split(), program=program) == want[o], f"GOAMD64={level} {o}"


def levels():
    """The instruction-set levels of amd64 to build for, of those that run here. The program is of v1."""
    if platform.machine() != "x86_64":
        return []
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return ["v3"] if " avx2 " in f.read() else []


@each
@of_each
def test_placement_changes_nothing(name, options, dataset, sample):
    assert sample(dataset(name), *options, "--resident") == sample(dataset(name), *options)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize("array", ["indices", "feature", "label", "train"])
def test_a_changed_byte_on_disk_changes_the_digest(name, array, khop, dataset, sample, tmp_path):
    options = ["--fanouts=-1", "--batch-size", "10000", "--seeds", "train"]  # the whole graph around all seeds
    path = tmp_path / "changed.khop"
    shutil.copytree(dataset(name), path)
    (before,) = sample(path, *options)
    _, content = oracle.load(path)
    arrays = [(c["name"], c["parts"][0]) for c in content["columns"]] + [
        (s["name"], s["sets"][0]["parts"][0]) for s in content["splits"]]
    part = next(p for n, p in arrays if n == array)
    row = used_row(array, content, path)
    with open(path / part["path"], "r+b") as f:
        at = part["body_offset"] + row * (part["bytes"] // part["rows"])
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))
    (after,) = sample(path, *options)
    assert after != before
    (want,) = oracle.main([str(path), *options])
    assert after[1] == want.split()[-1]
    assert part["path"] in run(khop, "check", path, fails=True)


def used_row(array, content, path):
    """A row that the batch of the first type's seeds holds."""
    seed = int(oracle.column(path, content["splits"][0]["sets"][0])[5])
    indptr = oracle.column(path, content["columns"][0])
    return {"indices": int(indptr[seed]), "train": 5}.get(array, seed)
