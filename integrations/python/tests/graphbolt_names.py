"""A plugin of pytest: GraphBolt's tests get khop.graphbolt under GraphBolt's names."""
import importlib
import sys

import dgl
import dgl.graphbolt  # so that its modules are there to be replaced

import khop.graphbolt

PLACES = {  # where GraphBolt's tests look for names beyond the package itself
    "base": "base", "impl": "impl", "internal": "internal", "impl.sampled_subgraph_impl": "subgraph",
    "impl.ondisk_dataset": "ondisk",
}
for name in [n for n in sys.modules if n.startswith("dgl.graphbolt")]:
    del sys.modules[name]
sys.modules["dgl.graphbolt"] = dgl.graphbolt = khop.graphbolt
for theirs, ours in PLACES.items():
    sys.modules["dgl.graphbolt." + theirs] = importlib.import_module("khop.graphbolt." + ours)
if __name__ != "__mp_main__":  # processes that tests spawn run the main module first: this one, for the same names
    sys.modules["__main__"].__spec__ = __spec__


def pytest_report_header():
    """Says what is tested."""
    return f"dgl.graphbolt is {khop.graphbolt.__name__}, of {khop.graphbolt.__file__}"
