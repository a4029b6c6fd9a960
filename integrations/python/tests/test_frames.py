"""khop.frames: datasets of tables that an engine has in partitions. khop.spark and khop.ray are in test_cluster.py."""
import concurrent.futures
import os

import pytest

import khop
import khop.cluster
from conftest import run
from khop._data import frames

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
import shop  # noqa: E402


@pytest.fixture
def write(program, tmp_path):
    """Writes a dataset of tables whose partitions are lists of record batches."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        def spill(parts, folder, order):
            def each():
                for i, part in enumerate(sorted(parts, key=lambda p: p[0][order[0]][0].as_py()) if order else parts):
                    frames.write_part(part, folder, i)
            return pool.submit(each)

        def write(nodes, edges, cancelled=lambda: False, **options):
            out = tmp_path / "out.khop"
            frames.write(nodes, edges, out, spill=spill, executor=pool, tasks=3, progress=None, cancelled=cancelled,
                         binary=None, options=options)
            return khop.info(out)["id"]
        yield write


def test_partitions_make_the_dataset_of_their_files(program, write, tmp_path):
    """Partitions without rows, of many batches, and in another order than that of their rows."""
    nodes, edges = shop.tables()
    nodes = shop.swap(nodes, lambda table, _: [table[:100].to_batches(7), [], table[100:].to_batches()])
    edges = shop.swap(edges, lambda table, entry: entry.update(order="row") or [
        table[150:].to_batches(1000), table[:150].to_batches()])
    run(program, "convert", shop.write(tmp_path / "source", *shop.tables()), tmp_path / "whole.khop")
    assert write(nodes, edges) == khop.info(tmp_path / "whole.khop")["id"]
    assert sorted(os.listdir(tmp_path)) == ["out.khop", "source", "whole.khop"]
    with pytest.raises(khop.WriteError, match="is there already"):
        write(nodes, edges)


def test_what_fails_leaves_nothing(write, tmp_path):
    nodes, edges = (shop.swap(of, lambda table, _: [table.to_batches()]) for of in shop.tables())
    with pytest.raises(khop.cluster.Cancelled):
        write(nodes, edges, cancelled=lambda: True)
    strange = pa.table({"src": ["nobody"], "dst": ["u1"]})
    with pytest.raises(khop.WriteError, match="not the id of a node"):
        write(nodes, {("user", "likes", "user"): [strange.to_batches()]})
    assert os.listdir(tmp_path) == []
