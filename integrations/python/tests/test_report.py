"""What an epoch waited for, in a sentence."""
import json

import khop
import pytest
from khop._loader.bottleneck import Told, sentence


@pytest.mark.parametrize("told, said", [
    (None, ""), ("text", ""), ({"text": ""}, ""), ({"text": "It waited."}, "It waited."),
    ({"text": "It waited.", "option": "", "advice": "less"}, "It waited. Try less."),
    ({"text": "It waited.", "option": "workers", "value": "8", "gain": 3.14},
     "It waited. Try workers=8: up to 3.1 times as fast."),
    ({"text": "It waited.", "option": "cache-bytes", "value": "2GiB", "advice": "another disk", "gain": 0},
     "It waited. Try cache_bytes='2GiB', or another disk."),
])
def test_a_sentence_has_options_as_python_has_them(told, said):
    assert sentence(told) == said


def epoch(batches, inside, waited, body):
    told = Told()
    at = 0.0
    for _ in range(batches):
        told.took(at, at + inside + waited)
        told.waited += waited
        at += inside + waited + body
    return told.sentence()


def test_python_is_named_where_it_takes_the_time():
    assert "batch_size" in epoch(20, 50e-6, 10e-6, 100e-6)
    assert epoch(20, 50e-6, 10e-6, 1e-3) == ""
    assert epoch(20, 5e-6, 500e-6, 10e-6) == ""
    assert epoch(5, 1.0, 0.0, 0.0) == ""  # too short to tell
    assert Told().sentence() == ""


@pytest.mark.parametrize("process", ["server", "inside"])
def test_a_loader_says_what_an_epoch_waited_for(program, dataset, process):
    if process == "inside":
        pytest.importorskip("khop._native.library").why_not() and pytest.skip("no shared library")
    with khop.Loader(dataset("sbm"), fanouts=[10, 10], batch_size=32, process=process) as loader:
        assert loader.report() == ""
        for _ in loader:
            pass
        told = loader.statistics()["report"]
        assert told["batches"] == len(loader) and told["seconds"] > 0
        assert loader.report() in (sentence(told), loader._told.sentence())
        json.dumps(told)
