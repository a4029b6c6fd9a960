"""Errors that pages quote are those that come. test_pages.py runs the pages' blocks."""
import re

import numpy as np
import pytest

from conftest import ROOT, run

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "integrations/python/README.md"]


@pytest.fixture(scope="module")
def folder(program, tmp_path_factory):
    path = tmp_path_factory.mktemp("docs")
    run(program, "generate", "sbm", path / "products.khop", "--nodes", 3000, "--edges", 9000, "--features", 8)
    return path


# --- errors that pages quote ---

QUOTED = [pytest.param(line, id=f"{page.name}:{line.split(':')[0]}:{n}") for page in PAGES
          for m in re.finditer(r"^```error\n(.*?)^```", page.read_text(), re.M | re.S) for n,
          line in enumerate(m[1].splitlines())]


def hold(khop):
    with khop.Loader("products.khop", [5], batch_size=64, hold=2, framework="numpy") as loader:
        batches = iter(loader)
        kept = [next(batches), next(batches)]
        loader._feed._timeout = 0.3  # from now on: a busy machine takes longer for a batch
        return [*kept, next(batches)]


def twice(khop):
    with khop.Loader("products.khop", [5], framework="numpy") as loader:
        first = iter(loader)
        iter(loader)
        next(first)


def state(khop):
    with khop.Loader("products.khop", [5], framework="numpy") as loader:
        loader.load_state_dict({**loader.state_dict(), "seed": 99})


MISTAKES = [  # what leads to the errors that pages quote
    lambda khop: khop.Loader("products.khop", fanout=[5]),
    lambda khop: khop.Loader("products.khop", [5], seeds=np.arange(7) < 3),
    lambda khop: khop.Loader("products.khop", [5], node_columns=["feat"]),
    lambda khop: khop.Loader("nowhere.khop", [5]),
    lambda khop: khop.Loader("products.khop", [5], binary="nowhere"),
    twice, hold, state,
    lambda khop: khop.write("new.khop", {"edge_index": np.array([[0, 1], [1, -2]])}),
]


@pytest.fixture(scope="module")
def said(folder):
    """The errors that mistakes lead to, as Python ends a traceback with them."""
    import khop
    texts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for mistake in MISTAKES:
            with pytest.raises(Exception) as e:
                mistake(khop)
            kind = f"khop.{e.type.__name__}" if issubclass(e.type, khop.KhopError) else e.type.__name__
            texts.append(f"{kind}: {e.value}")
    return texts


@pytest.mark.parametrize("line", QUOTED)
def test_errors_that_pages_quote_are_those_that_come(line, said):
    pattern = re.compile(r"\.\.+".join(re.escape(part) for part in line.split("..")).replace(r"\.\.+", ".*"))
    assert any(pattern.fullmatch(text) for text in said), "\n".join([line, "is none of", *said])


def test_every_mistake_is_quoted():
    assert len(QUOTED) == len(MISTAKES)


def test_pages_quote_errors_only_where_they_are_checked():
    """A line that looks like an error of khop's stands in a block of errors, whose lines the test above finds."""
    for page in PAGES:
        rest = re.sub(r"^```error\n.*?^```", "", page.read_text(), flags=re.M | re.S)
        found = re.findall(r"^\s*(?:khop: error|khop\.\w+Error: |(?:\w+Error): ).*", rest, re.M)
        assert not found, (page, found)
