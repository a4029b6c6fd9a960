"""What notebooks show of loaders and batches, and what tqdm shows."""
import re
import xml.etree.ElementTree

import khop


def shown(value):
    """The text of what a notebook shows, which is well-formed."""
    return [t for t in xml.etree.ElementTree.fromstring(value._repr_html_()).itertext() if t.strip()]


def test_a_batch_is_drawn_hop_by_hop(dataset):
    with khop.Loader(dataset("sbm"), [4, 3], batch_size=100, framework="numpy") as loader:
        batch = next(iter(loader))
        said = shown(batch)
        nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
        assert [t for t in said if "seeds" in t or ", hop" in t] == [
            "100 seeds", f"{nodes[1]:,} nodes, hop 1", f"{nodes[2]:,} nodes, hop 2"]
        assert [t for t in said if t.endswith(" edges")] == [f"{n:,} edges" for n in edges]
        at = said.index("batch.x")
        assert said[at + 1] == f"{batch.num_nodes:,} x 16 float32" and "batch.edge_index" in said
        text = shown(loader)
        assert text[0] == "khop.Loader" and dataset("sbm") in text and "100" in text
        assert text[2:7] == ["100 seeds", "4 edges each", "hop 1", "3 edges each", "hop 2"]
        batch.release()
        assert shown(batch) == ["khop.Batch 0 of epoch 0, released"]
    assert any("closed" in t for t in shown(loader))


def test_types_of_any_name_are_drawn(dataset):
    with khop.Loader(dataset("typed"), [4, 3], batch_size=100, framework="numpy") as loader:
        batch = next(iter(loader))
        said = shown(batch)
        assert 'batch["paper"].x' in said and "batch['author', 'writes', 'paper'].edge_index" in said
        assert said[1] == "100 seeds" and str(batch.num_nodes) == str(sum(
            int(re.sub(r"\D", "", t.split()[0])) for t in said if "seeds" in t or ", hop" in t))


def test_tqdm_knows_the_length(dataset):
    tqdm = __import__("pytest").importorskip("tqdm", reason="tqdm is not installed")
    with khop.Loader(dataset("sbm"), [2], batch_size=500, framework="numpy") as loader:
        bar = tqdm.tqdm(loader, disable=True)
        assert bar.total == len(loader) or len(bar) == len(loader)
        epoch = iter(loader)
        next(epoch)
        assert len(tqdm.tqdm(epoch, disable=True)) == len(loader) - 1
