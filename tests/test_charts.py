"""The charts and tables of docs/results are what bench/peers makes of the committed measurements."""
import copy
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs/results"
sys.path.insert(0, str(ROOT / "bench/peers"))
import charts

report = charts.report
sys.path.pop(0)
del sys.modules["report"]  # other folders have modules of that name

NAMES = list(charts.draw(RESULTS))


def read(name):
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_chart_is_what_the_program_draws(name):
    text, title = charts.draw(RESULTS)[name]
    assert (RESULTS / name).read_text(encoding="utf-8") == text, "run: bench/peers/charts.py"
    assert tree.fromstring(text).get("aria-label").startswith(title)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "cpu.svg"])
def test_the_page_says_what_its_chart_shows(name):
    page, title = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split()), charts.draw(RESULTS)[name][1]
    assert f"[![{title}]({name})](" in page and f"**{title}.**" in page


def test_a_figure_that_changes_changes_its_charts(tmp_path):
    for name in ("cpu.json", "charts.json"):
        (tmp_path / name).write_text(json.dumps(read(name)))
    assert charts.draw(tmp_path) == charts.draw(RESULTS)

    given = read("cpu.json")
    for run in given["runs"]:
        if run["contestant"] == "DGL":
            run["ms"] *= 2
    (tmp_path / "cpu.json").write_text(json.dumps(given))
    assert differ(tmp_path) == {"cpu.svg", "chart-batches.svg"}

    (tmp_path / "cpu.json").write_text(json.dumps(read("cpu.json")))
    for key in "disk", "convert", "epoch":
        changed = copy.deepcopy(read("charts.json"))
        bars = changed[key]["groups"][0]["bars"]
        bars[next(iter(bars))] *= 1.5
        (tmp_path / "charts.json").write_text(json.dumps(changed))
        assert differ(tmp_path) == {f"chart-{key}.svg"}


def differ(folder):
    was, now = charts.draw(RESULTS), charts.draw(folder)
    return {name for name in was if was[name] != now[name]}


@pytest.mark.parametrize("name", ["disk", "convert", "epoch"])
def test_a_page_has_the_figures_of_its_chart(name):
    given = read("charts.json")[name]
    text = "".join((RESULTS / page).read_text(encoding="utf-8") for page in given["pages"] if (RESULTS / page).exists())
    found = {float(n) for n in re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))}
    missing = [value for group in given["groups"] for value in group["bars"].values() if value not in found]
    assert not missing, f"{given['pages']} have no {missing}"


def test_the_tables_are_those_of_the_measurements():
    page = (RESULTS / "cpu.md").read_text(encoding="utf-8")
    assert page.startswith(report.markdown(read("cpu.json"))), \
        "run: bench/peers/report.py docs/results, and put what it prints above what is written by hand"


@pytest.mark.parametrize("name", NAMES)
def test_no_text_leaves_its_chart(name):
    svg = tree.parse(RESULTS / name).getroot()
    widths = {"title": 15.6, "note": 9.9, "group": 13.4, "ours": 13.4, "peer": 12.1}  # of a letter, in a wide font
    for text in svg.iter("{http://www.w3.org/2000/svg}text"):
        end = float(text.get("x")) + widths[text.get("class")] * len(text.text)
        assert end <= charts.WIDTH, f"{text.text!r} ends at {end:.0f} of {charts.WIDTH}"


def test_the_chart_and_table_of_passes_are_those_of_the_measurement():
    sys.path[:0] = [str(ROOT / "bench/embed"), str(ROOT / "bench/peers")]
    import passes

    del sys.path[:2]
    given = read("embed-passes.json")
    assert (RESULTS / "embed-passes.svg").read_text(encoding="utf-8") == passes.chart(given), \
        "run: bench/embed/passes.py --draw docs/results/embed-passes.json"
    assert passes.table(given) in (RESULTS / "embed.md").read_text(encoding="utf-8")
