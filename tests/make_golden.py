#!/usr/bin/env python3
"""Makes tests/golden/*.json again: digests of batches, by the independent program oracle.py.

Run from anywhere, with the packages of tests/requirements.txt; datasets come from khop generate and khop convert.
    KHOP_TESTDATA=FOLDER make_golden.py [NAME ...]
"""
import json
import pathlib
import sys
import tempfile

import conftest
import oracle

SHAPES = [  # every option that changes a batch, on small batches
    "--fanouts 15,10,5 --batch-size 256 --seed 7 --seeds all --batches 12",
    "--fanouts 15,10,5 --batch-size 256 --seed 7 --seeds all --shuffle --batches 12",
    "--fanouts 15,10,5 --batch-size 256 --seed 7 --seeds all --shuffle --epoch 1 --batches 3",
    "--fanouts 15,10,5 --batch-size 256 --seed 7 --seeds all --shuffle --epoch 4294967295 --batches 2",
    "--fanouts 15,10,5 --batch-size 64 --seed 7 --seeds all --shuffle --replace --batches 3",
    "--fanouts 15,10,5 --batch-size 64 --seed 7 --seeds all --shuffle --frontier new --batches 3",
    "--fanouts 10,5 --batch-size 64 --seed 7 --seeds all --shuffle --frontier new --replace --batches 3",
    "--fanouts=-1 --batch-size 100 --seed 7 --seeds all --batches 2",
    "--fanouts=-1,-1 --batch-size 3 --seed 7 --seeds all --batches 3",
    "--fanouts=-1,-1,2 --batch-size 3 --seed 7 --seeds all --frontier new --batches 3",
    "--fanouts=-1,3 --batch-size 20 --seed 7 --seeds all --replace --batches 2",
    "--fanouts 0 --batch-size 20 --seed 7 --seeds all --batches 2",
    "--fanouts 5,0,3 --batch-size 20 --seed 7 --seeds all --batches 2",
    "--fanouts 5,0,3 --batch-size 20 --seed 7 --seeds all --frontier new --batches 2",
    "--fanouts 0,4 --batch-size 20 --seed 7 --seeds all --shuffle --frontier new --batches 2",
    "--fanouts 1 --batch-size 1 --seed 7 --seeds all --first 17 --batches 9",
    "--fanouts 300,2 --batch-size 40 --seed 7 --seeds all --batches 2",
    "--fanouts 70,20 --batch-size 40 --seed 7 --seeds all --replace --batches 2",
    "--fanouts 3,3,3,3,3 --batch-size 5 --seed 7 --seeds all --batches 2",
    "--fanouts 5,3 --batch-size 700 --seed 18446744073709551615 --seeds all --shuffle",
    "--fanouts 5,3 --batch-size 1000000 --seed 0 --seeds all --shuffle",
    "--fanouts 5,3 --batch-size 1000000 --seed 0 --seeds train --shuffle",
    "--fanouts 10,10 --batch-size 128 --seed 3 --seeds train --shuffle",
    "--fanouts 10,10 --batch-size 128 --seed 3 --instance 1 --seeds train --shuffle --batches 2",
]
LABOR = [
    "--sampler labor --fanouts 15,10,5 --batch-size 256 --seed 7 --seeds all --shuffle --batches 3",
    "--sampler labor --fanouts=-1,3 --batch-size 20 --seed 7 --seeds all --frontier new --batches 2",
    "--sampler labor --fanouts 10,5 --batch-size 64 --seed 7 --seeds all --shuffle --poisson --layer-dependent "
    "--batches 3",
    "--sampler labor --fanouts 10,5 --batch-size 64 --seed 7 --seeds all --shuffle --batch-dependency 5 --first 3 "
    "--batches 9",
    "--sampler labor --fanouts 5,3 --batch-size 64 --seed 7 --instance 1 --epoch 4294967295 --seeds all "
    "--batch-dependency 64 --batches 3",
]
CHOOSE = [  # by weight and time
    "--weight weight --fanouts 5,3 --batch-size 60 --seed 7 --seeds all --shuffle --batches 3",
    "--weight weight --fanouts 4,-1 --batch-size 20 --seed 7 --seeds all --shuffle --replace --batches 3",
    "--weight weight --mask mask --share 0.3 --fanouts=-1,4 --batch-size 30 --seed 7 --seeds all --frontier new "
    "--batches 3",
    "--weight weight --fanouts 40,2 --batch-size 30 --seed 18446744073709551615 --seeds all --disjoint --batches 3",
    "--mask mask --share 0.5 --fanouts 6,3 --batch-size 30 --seed 7 --seeds all --shuffle --batches 3",
    "--sampler temporal --as-of 150 --fanouts 5,3 --batch-size 60 --seed 7 --seeds all --shuffle --batches 3",
    "--sampler temporal --as-of 150 --weight weight --fanouts 5,3 --batch-size 60 --seed 7 --seeds all --chain "
    "--time-rules not-after,before --batches 3",
    "--sampler temporal --as-of 250 --recent --window 90 --fanouts 5,3 --batch-size 60 --seed 7 --seeds all "
    "--frontier new --batches 3",
    "--sampler temporal --as-of 250 --half-life 12.5 --fanouts 4,3 --batch-size 30 --seed 7 --seeds all --shuffle "
    "--chain --disjoint --batches 3",
    "--sampler temporal --as-of 250 --half-life 40 --weight weight --mask mask --fanouts 4,3 --batch-size 30 --seed 7 "
    "--seeds all --batches 3",
    "--sampler temporal --as-of 200 --weight weight --replace --time-rules before,any --fanouts 4,3 --batch-size 30 "
    "--seed 7 --seeds all --batches 3",
]
EDGES = [  # of one type, with times
    "--sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 50 --seed 7 --shuffle --batches "
    "3",
    "--sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 50 --seed 7 --recent --chain "
    "--time-rules before --batches 3",
    "--sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 50 --seed 7 --shuffle "
    "--half-life 1000 --disjoint --batches 3",
]
NEGATIVES = [  # of edges with times
    "--seeds all-edges --link-time time --times ignore --negatives historical --negative-history time --fanouts 3 "
    "--batch-size 50 --seed 7 --negative-ratio 2.5 --corrupt either --shuffle --batches 3",
    "--seeds all-edges --link-time time --times ignore --negatives historical --negative-history time --negative-fill "
    "--negative-tries 2 --fanouts 2 --batch-size 50 --seed 7 --triplets --negative-ratio 2 --batches 3",
    "--seeds all-edges --negatives degree --negative-alpha 0.3 --fanouts 2 --batch-size 50 --seed 7 --corrupt both "
    "--strict --batches 3",
    "--seeds all-edges --negatives degree --fanouts 2 --batch-size 50 --seed 7 --corrupt source --batches 3",
]
OF_A_TYPE = [  # the column is of nodes
    f"--negative-type {{column}} --negatives {law} --corrupt {end} --fanouts 2 --batch-size 50 --seed 7 --shuffle "
    "--batches 3"
    for law, end in (("uniform", "either"), ("degree --negative-alpha 1", "both"),
                     ("weight --negative-weight {column}", "target"))]
WINDOWS = [  # of each seed; the file has the ends of int64, and windows in which nothing is
    "--sampler temporal --seeds window@golden/windows.txt --disjoint --fanouts 5,3 --batch-size 60 --seed 7 --shuffle",
    "--sampler temporal --seeds window@golden/windows.txt --disjoint --fanouts 5,3 --batch-size 60 --seed 7 --recent "
    "--chain --time-rules before,not-after --window 100",
    "--sampler temporal --seeds window@golden/windows.txt --disjoint --fanouts=-1,4 --batch-size 60 --seed 7 "
    "--half-life 40 --weight weight --time-rules not-after,any",
]
TIMES_OF_NODES = [
    "--sampler temporal --node-time time --as-of 150 --fanouts 5,3 --batch-size 60 --seed 7 --seeds all --shuffle "
    "--batches 3",
    "--sampler temporal --time none --node-time time --chain --fanouts bought=4,3;like=-1,2;*=2 --batch-size 40 "
    "--seed 7 --seeds all:item --batches 3",
    "--sampler temporal --time none --node-time time --recent --fanouts 3,3 --batch-size 40 --seed 7 --seeds all:item "
    "--disjoint --frontier new --batches 3",
]
SEQUENCES = [  # of every graph
    "--sequence 20 --fanouts 15 --batch-size 64 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 12 --seed-first --fanouts 15 --replace --batch-size 64 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 20 --seed-first --fanouts 5,3 --batch-size 64 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 40 --fanouts 4,3,2 --batch-size 20 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 9 --fanouts 4,3 --together --batch-size 20 --seed 7 --seeds all --shuffle --batches 3",
]
SCORES = [  # of graphs with one type of each
    "--sequence 16 --sampler ppr --batch-size 20 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 5 --seed-first --sampler ppr --alpha 0.5 --epsilon 0.01 --batch-size 20 --seed 7 --seeds all --batches "
    "3",
    "--sequence 12 --sampler pinsage --batch-size 20 --seed 7 --seeds all --shuffle --batches 3",
    "--sequence 12 --seed-first --sampler pinsage --walks 20 --length 4 --restart 0.2 --stop 0.1 --batch-size 20 "
    "--seed 7 --seeds all --batches 3",
]
PAPERS = [  # scores, where there are several types
    "--sequence 16 --seed-first --sampler ppr --edge-type cites --epsilon 0.001 --batch-size 20 --seed 7 --seeds "
    "all:paper --shuffle --batches 3",
    "--sequence 12 --sampler pinsage --edge-type cites --metapath writes,rev_writes --length 6 --restart 0.1 "
    "--batch-size 20 --seed 7 --seeds all:paper --shuffle --batches 3",
]
TIMED = [  # sequences with times
    "--sequence 20 --sampler temporal --as-of 150 --fanouts=-1 --batch-size 20 --seed 7 --seeds all --shuffle "
    "--batches 3",
    "--sequence 8 --seed-first --sampler temporal --as-of 250 --recent --window 90 --fanouts 12 --batch-size 30 --seed "
    "7 --seeds all --batches 3",
    "--sequence 30 --sampler temporal --as-of 250 --half-life 40 --weight weight --mask mask --chain --fanouts 4,3,2 "
    "--batch-size 30 --seed 7 --seeds all --shuffle --batches 3",
]
LATEST = [  # with windows of each seed, edges as seeds, and directions
    "--sequence 20 --sampler temporal --seeds window@golden/windows.txt --fanouts 5,3 --time-rules before,any --chain "
    "--batch-size 60 --seed 7 --shuffle",
    "--sequence 20 --sampler temporal --seeds window@golden/windows.txt --fanouts=-1 --batch-size 60 --seed 7 "
    "--seed-first",
    "--sequence 10 --sampler temporal --seeds all-edges --link-time time --fanouts 4,3 --batch-size 50 --seed 7 "
    "--shuffle --exclude-seeds reverse --batches 3",
    "--sequence 10 --seeds all-edges --link-time time --sampler temporal --fanouts 6 --direction both --recent "
    "--batch-size 50 --seed 7 --shuffle --negatives uniform --strict --batches 3",
    "--sequence 10 --weight weight --replace --share 0.5 --fanouts 9 --direction out --batch-size 50 --seed 7 --seeds "
    "all --shuffle --batches 3",
]
BORN = [  # with times of nodes alone: steps from nodes without a time have that of the node before
    "--sequence 20 --sampler temporal --time none --node-time time --chain --as-of 250 --fanouts 5,3,2 --batch-size 40 "
    "--seed 7 --seeds all --shuffle --batches 3",
    "--sequence 9 --seed-first --sampler temporal --time none --node-time time --time-rules any --as-of 90 --fanouts "
    "bought=9;like=4 --batch-size 40 --seed 7 --seeds all --shuffle --batches 3",
]
TYPED = SHAPES + [
    "--fanouts cites=15,10;writes=5,5 --batch-size 64 --seed 7 --seeds train --shuffle --batches 4",
    "--fanouts cites=15,10;writes=5,5 --batch-size 64 --seed 7 --seeds all --shuffle --batches 4",
    "--fanouts cites=15,10;writes=5,5 --batch-size 64 --seed 7 --seeds all --shuffle --frontier new --batches 4",
    "--fanouts cites=4;writes=2,-1,3 --batch-size 64 --seed 7 --seeds all --shuffle --frontier new --batches 4",
    "--fanouts cites=4;writes=2,-1,3 --batch-size 64 --seed 7 --seeds all --shuffle --replace --batches 4",
    "--fanouts cites=3,3;*=2 --batch-size 64 --seed 7 --seeds all --shuffle --batches 4",
    "--fanouts 5,5 --batch-size 64 --seed 7 --seeds all:author --shuffle --batches 4",
    "--fanouts 5,5 --batch-size 64 --seed 7 --seeds all:institution,paper --shuffle --batches 4",
]
REAL = [
    "--fanouts 15,10,5 --batch-size 64 --seed 7 --seeds all --shuffle --batches 4",
    "--fanouts 10,5 --batch-size 512 --seed 7 --seeds all --epoch 2 --shuffle --replace --batches 3",
    "--fanouts 10,5 --batch-size 512 --seed 7 --seeds all --epoch 2 --shuffle --frontier new --batches 3",
    "--fanouts=-1 --batch-size 512 --seed 7 --seeds all --batches 3",
]
SPLITS = REAL + [
    "--fanouts 15,10,5 --batch-size 1024 --seed 7 --seeds train --split 0 --shuffle --batches 4",
    "--fanouts 5,5 --batch-size 1024 --seed 7 --seeds train --split 9",
]
LARGE = [  # more than 65,536 seeds: the shuffle is the Feistel network
    "--fanouts 15,10,5 --batch-size 1024 --seed 7 --seeds all --shuffle --batches 3",
    "--fanouts 2 --batch-size 1024 --seed 7 --seeds all --shuffle --epoch 5 --first 60",
    "--fanouts 3,3 --batch-size 32768 --seed 8 --seeds all --shuffle --frontier new --replace",
    "--fanouts 10,5 --batch-size 1024 --seed 7 --shuffle --batches 2",
]
TINY = [
    "--fanouts 2,2 --batch-size 2 --seed 7 --seeds all",
    "--fanouts 2,2 --batch-size 2 --seed 7 --seeds train --shuffle --replace",
    "--fanouts=-1,1 --batch-size 9 --seed 7 --seeds all --frontier new",
]


def spelled(case):
    """A case with the frontier in it, so that a default is nobody's matter."""
    if "--frontier" in case or "ppr" in case or "pinsage" in case:
        return case
    return case + (" --frontier new" if "--sequence" in case else " --frontier all")


CASES = {name: list(map(spelled, cases)) for name, cases in {
    "golden-v1-plain": TINY, "golden-v1-typed": TINY,
    "sbm": SHAPES + LABOR + SEQUENCES + SCORES + [
        "--seeds all-edges " + case.format(column="label") for case in OF_A_TYPE],
    "typed": TYPED + LABOR + SEQUENCES + PAPERS, "rmat": LARGE,
    "tolokers": SPLITS, "minesweeper": SPLITS, "actor": SPLITS, "squirrel_filtered": SPLITS,
    "cora_ml": REAL, "citeseer": REAL, "musae-facebook-page": REAL, "CollegeMsg": REAL, "ogbl-ddi": REAL,
    "cnr-2000": LARGE, "events": CHOOSE + EDGES + WINDOWS + SEQUENCES + SCORES + TIMED + LATEST + NEGATIVES,
    "shop": CHOOSE + TIMES_OF_NODES + SEQUENCES + TIMED + BORN + NEGATIVES + [
        f"--seeds all-edges:item:like:item --link-time time --times ignore {case.format(column='time')} "
        "--negative-time time" for case in OF_A_TYPE], "messages": EDGES,
}.items()}


def made(name):
    """Where a dataset comes from, for people."""
    if name in conftest.COMMITTED:
        return conftest.COMMITTED[name]
    if name in conftest.WRITTEN:
        return f"khop convert of what conftest.{conftest.WRITTEN[name].__name__} writes"
    if name in conftest.TASKS:
        return " ".join(["khop convert", *conftest.TASKS[name]])
    return " ".join(["khop generate", *conftest.GENERATED[name]] if name in conftest.GENERATED
                    else ["khop convert", conftest.REAL[name]])


def main(names):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        datasets = conftest.Datasets(conftest.program(folder / "khop"), folder)
        for name in names or CASES:
            path = datasets(name)
            manifest = json.loads((path / "dataset.json").read_text())
            golden = {
                "made": made(name),
                "id": manifest["id"],
                "cases": [{"options": case, "batches": list(oracle.main(
                    [str(path), *case.replace("@golden", f"@{conftest.TESTS}/golden").split()]))}
                          for case in CASES[name]],
            }
            (conftest.TESTS / "golden" / (name + ".json")).write_text(json.dumps(golden, indent=1) + "\n")
            print(name, len(golden["cases"]), "cases,", sum(len(c["batches"]) for c in golden["cases"]), "batches")


if __name__ == "__main__":
    main(sys.argv[1:])
