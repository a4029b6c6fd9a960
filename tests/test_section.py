"""bench/section.py, by which programs write their sections of pages of results."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench"))
import section


def test_a_section_is_replaced_and_nothing_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n## One\n\nold\n\n```sh\n# no heading\n```\n\n### By hand\n\nkept\n\n## Two\n\nkept\n")
    section.put(page, "## One", "new\n")
    assert page.read_text() == "# Title\n\n## One\n\nnew\n\n### By hand\n\nkept\n\n## Two\n\nkept\n"
    section.put(page, "## Two", "new, too")
    assert page.read_text() == "# Title\n\n## One\n\nnew\n\n### By hand\n\nkept\n\n## Two\n\nnew, too\n"


def test_a_section_that_is_missing_is_appended(tmp_path):
    page = tmp_path / "page.md"
    section.put(page, "## One", "first")
    section.put(page, "## Two", "second")
    assert page.read_text() == "## One\n\nfirst\n\n## Two\n\nsecond\n"


def test_numbers_keep_their_percent_signs():
    text = section.wrapped("- " + "word " * 23 + "65 % of\n   all")
    assert max(map(len, text.splitlines())) <= 120 and "\n  65 % of all" in text


def test_pages_have_the_sections_that_programs_replace():
    for name, headings in {"ops.md": ["## SpMM by width", "## An epoch of training", "## Gradients that are sampled",
                                      "## Ways to compute a layer", "## Tuned kernels, and transposes that are kept",
                                      "## Operations by kind"],
                           "disk.md": ["## Features larger than memory"],
                           "mutations.md": ["## In kernels and device code"],
                           "gpu.md": ["## What a GPU should do, on paper", "## Lines that a gather reads over the bus"],
                           }.items():
        lines = (ROOT / "docs/results" / name).read_text(encoding="utf-8").splitlines()
        assert all(lines.count(heading) == 1 for heading in headings), name
