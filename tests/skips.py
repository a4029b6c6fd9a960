"""A plugin of pytest (-p skips): what one run skips for lack of real graphs, another one runs that has them.

--note-skips=FILE  writes the names of the tests that skip because KHOP_TESTDATA or another folder is not named
--noted=FILE       runs these alone
"""
import pathlib
import re

_REASON = re.compile(r"KHOP_[A-Z_]+ is not set")
_noted = set()


def pytest_addoption(parser):
    parser.addoption("--note-skips", type=pathlib.Path)
    parser.addoption("--noted", type=pathlib.Path)


def pytest_runtest_logreport(report):
    if report.skipped and _REASON.search(str(report.longrepr)):
        _noted.add(report.nodeid)


def pytest_sessionfinish(session):
    path = session.config.getoption("note_skips")
    if path and not hasattr(session.config, "workerinput"):
        path.write_text("".join(f"{name}\n" for name in sorted(_noted)))


def pytest_collection_modifyitems(config, items):
    path = config.getoption("noted")
    if path:
        names = set(path.read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = [item for item in items if item.nodeid in names]
