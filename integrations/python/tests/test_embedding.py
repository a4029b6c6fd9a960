"""Rows of torch modules for every node: equal to layers over the whole graph, and errors that say what is wrong."""

import os
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from khop import KhopError, OptionError, embedding  # noqa: E402


def graph(path):
    """The features and edges of a dataset, by its export."""
    import json
    columns = json.load(open(path / "dataset.json"))["content"]["columns"]

    def column(name, dtype, shape=()):
        part, = next(c for c in columns if c["name"] == name)["parts"]
        return np.fromfile(path / part["path"], dtype, offset=part["body_offset"],
                           count=part["rows"] * int(np.prod(shape))).reshape(-1, *shape)
    x = column("feature", np.float32, (16,))
    return torch.from_numpy(x), column("indptr", np.int64), column("indices", np.int32)


def means(x, indptr, indices):
    """Means over in-edges."""
    target = np.repeat(np.arange(len(x)), np.diff(indptr))
    out = torch.zeros(len(x), x.shape[1], dtype=x.dtype)
    out.index_add_(0, torch.from_numpy(target), x[torch.from_numpy(indices).long()])
    return out / torch.from_numpy(np.maximum(np.diff(indptr), 1))[:, None]


class Sage(torch.nn.Module):
    """A layer whose parameters the test has."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.sums = torch.nn.Linear(inputs, outputs), torch.nn.Linear(inputs, outputs, bias=False)

    def forward(self, own, sums):
        return self.own(own) + self.sums(sums)


@pytest.fixture()
def data(dataset, tmp_path):
    path = tmp_path / "data"
    shutil.copytree(dataset("sbm"), path)
    return path


def test_rows_are_those_of_layers_over_the_whole_graph(data, tmp_path):
    torch.manual_seed(1)
    first, second = Sage(16, 24), Sage(24, 5)
    out = tmp_path / "rows.npy"
    layers = [embedding.Layer("mean", 24, first), torch.nn.ReLU(), embedding.Layer("mean", 5, second)]
    result = embedding.embed(layers, data, out=str(out), name="a")
    x, indptr, indices = graph(data)
    with torch.no_grad():
        h = torch.relu(first(x, means(x, indptr, indices)))
        want = second(h, means(h, indptr, indices)).numpy()
    rows = np.load(out)
    assert result["width"] == 5 and rows.shape == want.shape
    np.testing.assert_allclose(rows, want, rtol=1e-4, atol=1e-5)
    few = tmp_path / "few.npy"
    embedding.embed(layers, data, out=str(few), name="a", max_memory=40 << 20)
    assert few.read_bytes() == out.read_bytes()
    embedding.embed(layers, data, out="rows", name="a")


def test_errors_say_what_is_wrong_and_what_is_finished_is_kept(data, tmp_path):
    out = str(tmp_path / "rows.npy")
    calls = []

    def layer(function):
        return [embedding.Layer("sum", 4, lambda own, sums: calls.append(0) or sums[:, :4]),
                embedding.Layer("sum", 3, function)]

    def broken(own, sums):
        raise ZeroDivisionError("nothing to divide")

    with pytest.raises(ZeroDivisionError, match="nothing to divide.*nodes 0 to .*run the same again"):
        embedding.embed(layer(broken), data, out=out, name="a")
    with pytest.raises(OptionError, match=r"made rows of the shape \(\d+, 4\), not \(\d+, 3\)"):
        embedding.embed(layer(lambda own, sums: own), data, out=out, name="a")
    with pytest.raises(KhopError, match="of node 0 has NaN"):
        embedding.embed(layer(lambda own, sums: sums[:, :3] * float("nan")), data, out=out, name="a")
    assert not os.path.exists(out)
    embedding.embed(layer(lambda own, sums: sums[:, :3]), data, out=out, name="a")
    assert np.isfinite(np.load(out)).all()
    with pytest.raises(OptionError, match="is no layer"):
        embedding.embed([torch.nn.ReLU()], data, out=out)


def test_convolutions_of_pyg_are_known(data, tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    x, indptr, indices = graph(data)
    edges = torch.from_numpy(np.stack([indices, np.repeat(np.arange(len(x)), np.diff(indptr))])).long()
    mlp = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    layers = [nn.SAGEConv(16, 12), torch.nn.ReLU(), nn.GraphConv(12, 8, aggr="max"), nn.GINConv(mlp)]
    out = tmp_path / "rows.npy"
    embedding.embed(layers, data, out=str(out))
    with torch.no_grad():
        for part in layers:
            x = part(x, edges) if hasattr(part, "propagate") else part(x)
    np.testing.assert_allclose(np.load(out), x.numpy(), rtol=1e-3, atol=1e-3)
    with pytest.raises(OptionError, match="GATConv is not known"):
        embedding.embed([nn.GATConv(16, 4)], data, out=str(out))
