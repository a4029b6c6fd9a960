"""tools/report.py fails where a test does, and where one skips that may not."""
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("report", ROOT / "tools/report.py")
report = importlib.util.module_from_spec(spec)
spec.loader.exec_module(report)

PASS = {"Action": "pass", "Package": "m/a", "Test": "TestX"}
SKIP = {"Action": "skip", "Package": "m/a", "Test": "TestY/sub"}


@pytest.mark.parametrize("text,ok", [
    ("", False), ("a TestY/sub", True), ("a TestY # the whole test", True), ("m/a Test?", True), ("* TestY", True),
    ("b TestY", False), ("a TestZ\n\n# comment", False), ("pytest a TestY is absent", False),
    ("a TestY/other\nc/m/a Test", False), ("a Test", False)])
def test_a_skip_must_be_on_the_list(text, ok):
    counts, problems = report.verdict([PASS, SKIP], report.allowed(text))
    assert counts == (1, 0, 1)
    assert problems == ([] if ok else ["skipped, but not allowed to: m/a TestY/sub"])


def test_any_test_may_skip_without_a_list():
    assert report.verdict([PASS, SKIP], None) == ((1, 0, 1), [])


@pytest.mark.parametrize("event,said", [
    ({"Action": "fail", "Package": "m/a", "Test": "TestF"}, "failed: m/a TestF"),
    ({"Action": "fail", "Package": "m/a"}, "failed: m/a "),
    ({"Action": "build-fail", "ImportPath": "m/a"}, "failed: m/a "),
    ({"Action": "start", "Package": "m/b"}, "did not end: m/b")])
def test_what_fails_fails(event, said):
    assert report.verdict([PASS, event], None)[1] == [said]


def test_nothing_is_no_success():
    assert report.verdict([], None)[1] == ["no test has passed"]


@pytest.mark.parametrize("text", ["only-one-word", "a b c"])
def test_a_list_that_cannot_be_read_is_refused(text):
    with pytest.raises(SystemExit):
        report.allowed(text)
