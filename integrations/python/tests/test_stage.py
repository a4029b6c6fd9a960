"""khop.stage: options as the program takes them."""
import pathlib

import pytest

import khop
from khop._native import program


@pytest.mark.parametrize("options, line", [
    ({"cache_dir": None, "cache_size": None}, []), ({"cache_dir": pathlib.Path("a b")}, ["--cache-dir", "a b"]),
    ({"cache_size": "5GB"}, ["--cache-size", "5GB"]), ({"some_flag": True}, ["--some-flag"]),
    ({"some_flag": False}, ["--some-flag=false"]), ({"cache_size": 5}, ["--cache-size", "5"]),
])
def test_options_are_spelled_as_the_program_takes_them(monkeypatch, options, line):
    class Done:
        stdout = '{"path": "there"}'

        def check(self):
            pass
    said = []
    monkeypatch.setattr(program, "call", lambda given, binary: said.append(given) or Done())
    assert khop.stage("s3://bucket/set", **options) == "there"
    assert said == [["stage", "s3://bucket/set", "--json", *line]]
