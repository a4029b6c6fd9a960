"""Every sampler, with its options in Python: the batches are those of khop sample."""
import inspect
import json

import numpy as np
import pytest

import khop
from conftest import run
from khop._config.configuration import SamplerOptions

# A dataset, options of khop.Loader, and the same as flags. Together they name every sampler and all of its options.
CASES = [
    ("sbm", {}, []),
    ("sbm", dict(sampler="neighbor", fanouts=[4, 3], replace=True),
     ["--sampler=neighbor", "--fanouts=4,3", "--replace"]),
    ("typed", dict(fanouts={"cites": [4, 3], "*": [2, 2]}, frontier="new", disjoint=True),
     ["--fanouts=cites=4,3;*=2,2", "--frontier=new", "--disjoint"]),
    ("typed", dict(fanouts=[5, 3], together=True), ["--fanouts=5,3", "--together"]),
    ("columns", dict(fanouts=[3, 2], direction="both", weight="weight"),
     ["--fanouts=3,2", "--direction=both", "--weight=weight"]),
    ("columns", dict(sampler="temporal", fanouts=[3], as_of=60, direction="out"),
     ["--sampler=temporal", "--fanouts=3", "--as-of=60", "--direction=out"]),
    ("typed", dict(fanouts=[3, 2], induced=True), ["--fanouts=3,2", "--induced"]),
    ("columns", dict(sampler="temporal", fanouts=[4], as_of=60, together=True),
     ["--sampler=temporal", "--fanouts=4", "--as-of=60", "--together"]),
    ("columns", dict(fanouts=[4, 3], weight="weight", mask="mask", share=0.5),
     ["--fanouts=4,3", "--weight=weight", "--mask=mask", "--share=0.5"]),
    (
        "columns",
        dict(sampler="temporal", fanouts=[3, 2], time="time", as_of=50, weight="weight", mask="mask", disjoint=True,
             replace=True, share=0.7),
        ["--sampler=temporal", "--fanouts=3,2", "--as-of=50", "--weight=weight", "--mask=mask", "--disjoint",
         "--replace", "--share=0.7"],
    ),
    (
        "sbm",
        dict(sampler="temporal", fanouts=[3, 2], time="none", node_time="label", time_rules=["before", "not-after"],
             window={"*": [3, 2]}, half_life=2.5, chain=True,
             frontier="new"),
        ["--sampler=temporal", "--fanouts=3,2", "--time=none", "--node-time=label", "--time-rules=before,not-after",
         "--window=*=3,2", "--half-life=2.5",
         "--chain", "--frontier=new"],
    ),
    ("columns", dict(sampler="temporal", fanouts=[5], recent=True, as_of=70),
     ["--sampler=temporal", "--fanouts=5", "--recent", "--as-of=70"]),
    (
        "typed",
        dict(sampler="walk", length=6, walks=2, restart=0.2, stop=0.1, metapath=["writes", "rev_writes"],
             walk_edges=True),
        ["--sampler=walk", "--length=6", "--walks=2", "--restart=0.2", "--stop=0.1", "--metapath=writes,rev_writes",
         "--walk-edges"],
    ),
    ("sbm", dict(sampler="saint-node", budget=70, steps=3, coverage=2),
     ["--sampler=saint-node", "--budget=70", "--steps=3", "--coverage=2"]),
    ("sbm", dict(sampler="saint-edge", budget=70, steps=3, coverage=0),
     ["--sampler=saint-edge", "--budget=70", "--steps=3", "--coverage=0"]),
    ("sbm", dict(sampler="saint-walk", budget=70, length=3, steps=2, coverage=1),
     ["--sampler=saint-walk", "--budget=70", "--length=3", "--steps=2", "--coverage=1"]),
    (
        "typed",
        dict(sampler="pinsage", neighbors=4, hops=2, walks=5, length=4, restart=0.1, stop=0.1,
             metapath=["writes", "rev_writes"], edge_type="cites"),
        ["--sampler=pinsage", "--neighbors=4", "--hops=2", "--walks=5", "--length=4", "--restart=0.1", "--stop=0.1",
         "--metapath=writes,rev_writes", "--edge-type=cites"],
    ),
    (
        "typed",
        dict(sampler="ppr", neighbors=5, alpha=0.2, epsilon=0.001, edge_type="cites"),
        ["--sampler=ppr", "--neighbors=5", "--alpha=0.2", "--epsilon=0.001", "--edge-type=cites"],
    ),
    ("typed", dict(fanouts=[4, 3], sequence=9, seed_first=True), ["--fanouts=4,3", "--sequence=9", "--seed-first"]),
    ("columns", dict(sampler="temporal", fanouts=[-1], as_of=60, sequence=7, seed_first=True),
     ["--sampler=temporal", "--fanouts=-1", "--as-of=60", "--sequence=7", "--seed-first"]),
    ("sbm", dict(sampler="pinsage", sequence=6, seed_first=True, length=3),
     ["--sampler=pinsage", "--sequence=6", "--seed-first", "--length=3"]),
    ("typed", dict(sampler="ppr", sequence=6, seed_first=True, epsilon=0.01, edge_type="cites"),
     ["--sampler=ppr", "--sequence=6", "--seed-first", "--epsilon=0.01", "--edge-type=cites"]),
    ("sbm", dict(sampler="shadow", fanouts=[4, 3], replace=True), ["--sampler=shadow", "--fanouts=4,3", "--replace"]),
    ("typed", dict(sampler="induced"), ["--sampler=induced"]),
    (
        "sbm",
        dict(sampler="node2vec", length=5, walks=3, p=0.5, q=2, walk_edges=True),
        ["--sampler=node2vec", "--length=5", "--walks=3", "--p=0.5", "--q=2", "--walk-edges"],
    ),
    ("sbm", dict(sampler="labor", fanouts=[4, 3], poisson=True, layer_dependent=True),
     ["--sampler=labor", "--fanouts=4,3", "--poisson", "--layer-dependent"]),
    ("typed", dict(sampler="labor", fanouts=[3, 2], frontier="new", batch_dependency=3),
     ["--sampler=labor", "--fanouts=3,2", "--frontier=new", "--batch-dependency=3"]),
    ("columns", dict(sampler="fastgcn", layer_nodes=[300, 200], weight="weight"),
     ["--sampler=fastgcn", "--layer-nodes=300,200", "--weight=weight"]),
    ("columns", dict(sampler="ladies", layer_nodes=[50, -1], weight="weight"),
     ["--sampler=ladies", "--layer-nodes=50,-1", "--weight=weight"]),
    ("typed", dict(sampler="hgt", layer_nodes={"paper": [20, 10], "*": [5]}),
     ["--sampler=hgt", "--layer-nodes=paper=20,10;*=5"]),
]


@pytest.mark.parametrize("name, options, flags", [pytest.param(*c, id=" ".join([c[0], *c[2]])) for c in CASES])
def test_batches_are_those_of_khop_sample(name, options, flags, dataset, sample):
    pytest.importorskip("xxhash")
    with khop.Loader(dataset(name), batch_size=200, seed=5, shuffle=True, **options) as loader:
        assert [(b.number, *b.digests()) for b in loader] == sample(
            dataset(name), "--batch-size=200", "--seed=5", "--shuffle", *flags)


@pytest.mark.parametrize("sampler, options", [("full", dict(work=500)), ("cluster", dict(clusters=3))])
def test_batches_of_items_are_those_of_khop_sample(sampler, options, dataset, sample, tmp_path):
    pytest.importorskip("xxhash")
    path = dataset("sbm")
    if sampler == "cluster":
        parts = tmp_path / "parts"
        parts.write_text("".join(f"{v % 7}\n" for v in range(3000)))
        options = dict(options, partition=str(parts))
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
    with khop.Loader(path, sampler=sampler, **options) as loader:
        assert [(b.number, *b.digests()) for b in loader] == sample(path, f"--sampler={sampler}", *flags)


def test_every_sampler_and_option_has_a_case(program):
    seen = {(options.get("sampler", "neighbor"), option) for _, options, _ in CASES for option in options}
    seen |= {("full", "work"), ("cluster", "clusters"), ("cluster", "partition")}
    for sampler in json.loads(run(program, "samplers", "--json"))["samplers"]:
        for option in sampler["options"]:
            name = option["name"].replace("-", "_")
            assert name == "fanouts" or name in SamplerOptions.__annotations__, f"SamplerOptions has no {name}"
            assert (sampler["name"], name) in seen, f"no case has sampler={sampler['name']!r} and {name}"


@pytest.mark.parametrize("name, near",
                         [("fronteer", "frontier"), ("batchsize", "batch_size"), ("num_neighbours", "num_neighbors")])
def test_an_unknown_option_is_refused_with_the_nearest(name, near):
    with pytest.raises(TypeError, match=f"has no option '{name}': did you mean '{near}'"):
        khop.Loader("nowhere.khop", **{name: 1})


def test_the_signature_names_every_option():
    names = list(inspect.signature(khop.Loader).parameters)
    assert names[:2] == ["dataset", "fanouts"] and "options" not in names
    assert {"batch_size", "sampler", "half_life", "negatives", "device", "serve_options"} <= set(names)


def test_an_option_of_another_sampler_or_an_unknown_sampler_is_an_error(dataset):
    with pytest.raises(khop.OptionError, match="^sampler must be one of"):
        khop.Loader(dataset("sbm"), sampler="neighbour")


def test_seeds_have_times_of_their_own(dataset, sample, tmp_path):
    pytest.importorskip("xxhash")
    path, ids, times = dataset("columns"), np.arange(60)[::-1], np.arange(60) * 2 - 7
    file = tmp_path / "seeds"
    file.write_text("".join(f"{i} {t}\n" for i, t in zip(ids, times)))
    want = sample(path, f"--seeds=timed@{file}", "--sampler=temporal", "--fanouts=3", "--batch-size=25")
    for seeds, when in ((ids, times), (ids.tolist(), times.tolist())):
        with khop.Loader(path, [3], sampler="temporal", seeds=seeds, input_time=when, batch_size=25) as loader:
            assert [(b.number, *b.digests()) for b in loader] == want
    whole = np.arange(500) * 2 - 7  # of a mask the times of its nodes, or of all
    with khop.Loader(path, [3], sampler="temporal", seeds=np.arange(500) < 60, input_time=whole,
                     batch_size=25) as loader:
        assert [t for b in loader for t in np.asarray(b.array("sample/time/node"))[: b.batch_size]] == times.tolist()


def test_seeds_have_windows_of_their_own(dataset, sample, tmp_path):
    pytest.importorskip("xxhash")
    path, ids, times = dataset("columns"), np.arange(60)[::-1], np.arange(60) * 2 - 7
    start, file = times - np.arange(60) % 9, tmp_path / "seeds"
    file.write_text("".join(f"{i} {t} {f}\n" for i, t, f in zip(ids, times, start)))
    want = sample(path, f"--seeds=window@{file}", "--sampler=temporal", "--disjoint", "--fanouts=3", "--batch-size=25")
    options = dict(sampler="temporal", seeds=ids, batch_size=25)
    with khop.Loader(path, [3], input_time=times, input_start_time=start, disjoint=True, **options) as loader:
        assert [(b.number, *b.digests()) for b in loader] == want
    with pytest.raises(khop.OptionError, match="set disjoint"):
        khop.Loader(path, [3], input_time=times, input_start_time=start, **options)
    with pytest.raises(TypeError, match="input_start_time: windows begin there and end at input_time"):
        khop.Loader(path, [3], input_start_time=start, **options)
    with pytest.raises(ValueError, match="input_start_time: .* each of 60 seeds"):
        khop.Loader(path, [3], input_time=times, input_start_time=start[:5], **options)


@pytest.mark.parametrize("seeds, when, says", [("train", [1], "input_time"), ([1, 2], [1], "for each of 2 seeds"),
                                               ([1], [0.5], "whole number"),
                                               ({"node": [1]}, [1], "keys of seeds")])
def test_times_that_do_not_fit_the_seeds_are_refused(seeds, when, says, dataset):
    with pytest.raises((TypeError, ValueError), match=says):
        khop.Loader(dataset("columns"), [3], sampler="temporal", seeds=seeds, input_time=when)
