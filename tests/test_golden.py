"""khop sample makes the batches that the independent program made (golden/*.json, by make_golden.py)."""
import json
import os

import numpy as np
import pytest

import oracle
from conftest import TESTS

GOLDEN = {f.stem: json.loads(f.read_text()) for f in sorted((TESTS / "golden").glob("*.json"))}


@pytest.mark.parametrize("name", GOLDEN)
def test_batches_equal_the_golden_ones(name, dataset, sample):
    path, golden = dataset(name), GOLDEN[name]
    assert json.loads((path / "dataset.json").read_text())["id"] == golden["id"], \
        f"{name} is another dataset than when the golden file was made; if that is meant, run tests/make_golden.py"
    differ = []
    for case in golden["cases"]:
        want = [(int(line.split()[0]), line.split()[-1]) for line in case["batches"]]
        if sample(path, *case["options"].replace("@golden", f"@{TESTS}/golden").split()) != want:
            differ.append(case["options"])
    assert not differ, f"of {len(golden['cases'])} cases of {name} these differ: {differ}"


@pytest.mark.parametrize("name", ["sbm", "typed"])
@pytest.mark.parametrize("number", range(12))
def test_batches_equal_the_oracle_under_random_options(name, number, dataset, sample):
    rng = np.random.default_rng(number)
    options = ["--fanouts=" + ",".join(map(str, rng.choice([-1, 0, 1, 2, 3, 5, 8, 20], rng.integers(1, 4)))),
               "--batch-size", rng.integers(1, 60), "--seed", rng.integers(2**63), "--epoch", rng.integers(2**32),
               "--first", rng.integers(20), "--batches", 2, "--seeds", rng.choice(["all", "train"]),
               "--frontier", rng.choice(["all", "new"]),
               *(["--shuffle"] if rng.integers(2) else [])]
    if rng.integers(2):
        options += ["--sampler", "labor", "--batch-dependency", rng.integers(1, 5),
                    *[o for o in ("--poisson", "--layer-dependent") if rng.integers(2)]]
    elif rng.integers(2):
        options.append("--replace")
    options = [str(o) for o in options]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want, " ".join(options)


def by_type(name, rng, draw):
    """A list for all edge types, or several by type."""
    if name != "shop" or rng.integers(2):
        return draw()
    others = ["bought_by", "*"][:rng.integers(1, 3)]
    return ";".join(f"{edge}={draw()}" for edge in ("user:bought:item", *others))


@pytest.mark.parametrize("name", ["events", "shop"])
@pytest.mark.parametrize("number", range(6))
def test_picks_by_weight_and_time_equal_the_oracle_under_random_options(name, number, dataset, sample):
    rng = np.random.default_rng(number)
    options = ["--fanouts=" + ",".join(map(
        str, rng.choice([-1, 0, 1, 2, 3, 5, 8, 40], rng.integers(1, 4), p=[.04, .12, .18, .18, .18, .18, .08, .04]))),
               "--batch-size", rng.integers(1, 40), "--seed", rng.integers(2**63), "--first", rng.integers(5),
               "--batches", 1, "--seeds", "all",
               "--frontier", rng.choice(["all", "new"]), *[o for o in ("--shuffle", "--disjoint") if rng.integers(2)]]
    weight = rng.integers(3) > 0
    options += [*(["--weight", "weight"] if weight else []), *(["--mask", "mask"] if rng.integers(2) else []),
                *(["--share", rng.choice([0.1, 0.5, 1])] if rng.integers(3) == 0 else [])]
    replace = rng.integers(4) == 0
    if rng.integers(3):
        options += ["--sampler", "temporal", "--as-of", rng.integers(300), "--time",
                    rng.choice(["time", "time", "none"] if name == "shop" else ["time"]),
                    "--time-rules", by_type(name, rng, lambda: ",".join(
                        rng.choice(["not-after", "before", "any"], rng.integers(1, 4)))),
                    "--window", by_type(name, rng, lambda: ",".join(
                        map(str, rng.choice([0, 30, 100], rng.integers(1, 3))))),
                    *(["--node-time", "time"] if name == "shop" else []), *(["--chain"] if rng.integers(2) else [])]
        kind = rng.integers(3)
        options += ["--recent"] if kind == 0 and not weight and not replace else [
            "--half-life", rng.choice([3.5, 60])] if kind == 1 and not replace else []
    elif not weight:
        options += ["--share", "0.7"] if "--share" not in options else []
    options = [str(o) for o in [*options, *(["--replace"] if replace else [])]]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want, " ".join(options)


@pytest.mark.parametrize("name", ["events", "shop"])
@pytest.mark.parametrize("number", range(int(os.environ.get("KHOP_WINDOWS", 6))))
def test_windows_of_seeds_equal_the_oracle_under_random_options(name, number, dataset, sample, tmp_path):
    """KHOP_WINDOWS draws more of them."""
    rng = np.random.default_rng(number)
    replace, weight, kind = rng.integers(4) == 0, rng.integers(3) == 0, rng.integers(3)
    seeds = tmp_path / "seeds.txt"
    with seeds.open("w") as file:
        for _ in range(rng.integers(1, 30)):
            t = rng.integers(300)
            first = rng.choice([-2**63, 2**63 - 1, t + 1, t - 1, *(t - rng.integers(0, 200, 6))])
            file.write(f"{'' if name == 'events' else rng.choice(['user ', 'item '])}{rng.integers(300)} {t} {first}\n")
    options = ["--fanouts=" + ",".join(map(str, rng.choice([-1, 1, 2, 5, 8, 40], rng.integers(1, 4)))),
               "--batch-size", rng.integers(1, 30), "--seed", rng.integers(2**63), "--batches", 1,
               "--seeds", f"window@{seeds}", "--sampler", "temporal", "--disjoint",
               "--frontier", rng.choice(["all", "new"]), *(["--shuffle"] if rng.integers(2) else []),
               "--time", rng.choice(["time", "time", "none"] if name == "shop" else ["time"]),
               *(["--node-time", "time"] if name == "shop" else []), *(["--chain"] if rng.integers(2) else []),
               "--time-rules", by_type(name, rng, lambda: ",".join(
                   rng.choice(["not-after", "not-after", "before", "any"], rng.integers(1, 4)))),
               "--window", by_type(name, rng, lambda: ",".join(map(str, rng.choice([0, 30, 100], rng.integers(1, 3))))),
               *(["--weight", "weight"] if weight else []), *(["--mask", "mask"] if rng.integers(3) == 0 else []),
               *(["--share", rng.choice([0.1, 0.5, 1])] if rng.integers(3) == 0 else []),
               *(["--replace"] if replace else []),
               *(["--recent"] if kind == 0 and not weight and not replace else []),
               *(["--half-life", rng.choice([3.5, 60])] if kind == 1 and not replace else [])]
    options = [str(o) for o in options]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want, f"{' '.join(options)}\n{seeds.read_text()}"


@pytest.mark.parametrize("name", ["events", "shop", "typed", "sbm"])
@pytest.mark.parametrize("number", range(int(os.environ.get("KHOP_NEGATIVES", 5))))
def test_negatives_equal_the_oracle_under_random_options(name, number, dataset, sample):
    """KHOP_NEGATIVES draws more of them."""
    rng = np.random.default_rng(number)
    timed, like = name in ("events", "shop"), name == "shop" and bool(rng.integers(2))
    law = rng.choice(["uniform", "degree", "batch", *["historical"] * 3 * timed, *["weight"] * (like or name == "sbm")])
    history, fill = law == "historical", bool(rng.integers(2))
    column, of_nodes = "label" if name == "sbm" else "time", (not history or fill) and (like or name == "sbm")
    options = ["--fanouts=" + ",".join(map(str, rng.choice([-1, 0, 2, 5], rng.integers(1, 3)))), "--batch-size",
               rng.integers(1, 60), "--seed", rng.integers(2**63), "--epoch", rng.integers(2**32), "--batches", 2,
               "--first", rng.integers(9), "--frontier", rng.choice(["all", "new"]), "--negatives", law,
               "--seeds", "all-edges:item:like:item" if like else "all-edges",
               *(["--link-time", "time", "--times", "ignore"] if timed else []),
               *(["--shuffle"] if rng.integers(2) else []),
               *(["--negative-weight", column] if law == "weight" else []),
               *(["--negative-alpha", rng.choice([0.01, 0.5, 0.6, 1])] if law == "degree" else []),
               *(["--negative-history", "time", *(["--negative-fill"] if fill else [])] if history else []),
               *(["--negative-time", "time"] if timed and of_nodes and rng.integers(2) else []),
               *(["--negative-type", column] if of_nodes and law != "batch" and rng.integers(2) else []),
               *(["--negative-tries", rng.integers(1, 5)] if rng.integers(2) else [])]
    if rng.integers(3) == 0:
        options += ["--triplets", "--negative-ratio", rng.integers(1, 4), "--corrupt", rng.choice(["source", "target"])]
    else:
        options += ["--negative-ratio", rng.choice([0.3, 1, 2.5]),
                    "--corrupt", rng.choice(["source", "target", "either", *["both"] * (not history)])]
    options = [str(o) for o in [*options, *(["--strict"] if not history and rng.integers(2) else [])]]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want and want, " ".join(options)


@pytest.mark.parametrize("name, lines", [("sbm", ["7", "3", "7 ", "2999", "0", "3", "11"]),
                                         ("typed",
                                          ["paper 7", "author 3", "paper 7", "author 3", "institution 1", "paper 2"])])
@pytest.mark.parametrize("options", ["--batch-size 3", "--batch-size 4 --shuffle", "--batch-size 100 --frontier new"])
def test_seeds_from_a_file_may_repeat(name, lines, options, dataset, sample, tmp_path):
    (tmp_path / "seeds.txt").write_text("\n".join(lines) + "\n")
    options = ["--fanouts", "4,3", "--seed", "5", "--seeds", f"@{tmp_path}/seeds.txt", *options.split()]
    want = [(int(line.split()[0]), line.split()[-1]) for line in oracle.main([str(dataset(name)), *options])]
    assert sample(dataset(name), *options) == want


def test_any_byte_of_any_array_is_in_the_digest():
    rng = np.random.default_rng(5)
    indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 6, 50))))
    g = oracle.Graph(indptr, rng.integers(0, 50, indptr[-1]), columns={
        ("node", "feature"): rng.random((50, 3), np.float32), ("node", "label"): rng.integers(0, 4, 50)})
    (_, arrays), = oracle.epoch(g, [(0, np.arange(50))], [[4, 3]], batch_size=20, batches=[1], edge_pos=True)
    arrays, _ = oracle.with_columns(g, arrays)
    seen = {oracle.digest(arrays)}
    for name, array in arrays.items():
        for position in {0, array.nbytes // 2, array.nbytes - 1}:
            changed = array.copy()
            changed.view(np.uint8).reshape(-1)[position] ^= 1
            seen.add(oracle.digest({**arrays, name: changed}))
        seen.add(oracle.digest({**arrays, name: array.reshape(1, *array.shape)}))
        seen.add(oracle.digest({**arrays, name: array.view(np.float64 if array.itemsize == 8 else np.int32)}))
        seen.add(oracle.digest({k + "x" * (k == name): v for k, v in arrays.items()}))
    assert len(seen) == 1 + sum(3 + len({0, a.nbytes // 2, a.nbytes - 1}) for a in arrays.values())
