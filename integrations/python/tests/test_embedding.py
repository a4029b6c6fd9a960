"""Rows of torch modules for every node: equal to layers over the whole graph, and errors that say what is wrong."""

import json
import os
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from khop import KhopError, OptionError, embedding  # noqa: E402


def column(path, name, dtype, shape=(), owner=None):
    """A column of a dataset."""
    columns = json.loads((path / "dataset.json").read_text())["content"]["columns"]
    part, = next(c for c in columns if c["name"] == name and owner in (None, c["owner"]))["parts"]
    return np.fromfile(path / part["path"], dtype, offset=part["body_offset"],
                       count=part["rows"] * int(np.prod(shape))).reshape(-1, *shape)


def graph(path):
    """The features and edges of a dataset."""
    x = column(path, "feature", np.float32, (16,))
    return torch.from_numpy(x), column(path, "indptr", np.int64), column(path, "indices", np.int32)


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
    parquet = pytest.importorskip("pyarrow.parquet")
    for nodes, of in ((None, np.arange(len(rows))), ("7-2500", np.arange(7, 2501))):
        table = tmp_path / "rows.parquet"
        embedding.embed(layers, data, out=str(table), name="a", nodes=nodes, force=True)
        read = parquet.read_table(table)
        assert read.column_names == ["id", "embedding"] and (read["id"].to_numpy() == of).all()
        assert np.stack(read["embedding"].to_numpy()).tobytes() == rows[of].tobytes()


def test_errors_say_what_is_wrong_and_what_is_finished_is_kept(data, tmp_path):
    out = str(tmp_path / "rows.npy")
    calls = []

    def layer(function):
        return [embedding.Layer("sum", 4, lambda own, sums: calls.append(0) or sums[:, :4]),
                embedding.Layer("sum", 3, function)]

    def broken(own, sums):
        raise ZeroDivisionError("nothing to divide")

    with pytest.raises(ZeroDivisionError, match="nothing to divide.*nodes 0 to .*do the same again"):
        embedding.embed(layer(broken), data, out=out, name="a")
    with pytest.raises(OptionError, match=r"made rows of the shape \(\d+, 4\), not \(\d+, 3\)"):
        embedding.embed(layer(lambda own, sums: own), data, out=out, name="a")
    with pytest.raises(KhopError, match="of node 0 has NaN"):
        embedding.embed(layer(lambda own, sums: sums[:, :3] * float("nan")), data, out=out, name="a")
    assert not os.path.exists(out)
    embedding.embed(layer(lambda own, sums: sums[:, :3]), data, out=out, name="a")
    assert np.isfinite(np.load(out)).all()
    with pytest.raises(OptionError, match="is not a layer"):
        embedding.embed([torch.nn.ReLU()], data, out=out)


def test_convolutions_of_pyg_are_known(data, tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    x, indptr, indices = graph(data)
    edges = torch.from_numpy(np.stack([indices, np.repeat(np.arange(len(x)), np.diff(indptr))])).long()
    mlp = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    for layers in ([nn.SAGEConv(16, 12), torch.nn.ReLU(), nn.GraphConv(12, 8, aggr="max"), nn.GINConv(mlp)],
                   [nn.GCNConv(16, 12), torch.nn.ReLU(), nn.GATConv(12, 4, heads=3), torch.nn.ELU(),
                    nn.GATConv(12, 5, heads=2, concat=False)]):
        h = x
        with torch.no_grad():
            for part in layers:
                h = part(h, edges) if hasattr(part, "propagate") else part(h)
        files = []
        for memory in (None, 40 << 20):
            files.append(tmp_path / f"{len(layers)}-{memory}.npy")
            embedding.embed(layers, data, out=str(files[-1]), max_memory=memory)
        np.testing.assert_allclose(np.load(files[0]), h.numpy(), rtol=1e-3, atol=1e-3)
        assert files[0].read_bytes() == files[1].read_bytes()
    for wrong in (nn.GATv2Conv(16, 4), nn.GCNConv(16, 4, improved=True), nn.GATConv(16, 4, negative_slope=0.1)):
        with pytest.raises(OptionError, match="is not supported"):
            embedding.embed([wrong], data, out=str(tmp_path / "wrong.npy"))


def test_layers_are_as_they_were_afterwards(data, tmp_path):
    norm = torch.nn.BatchNorm1d(4)
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    layers = [embedding.Layer("sum", 4, lambda own, sums: sums[:, :4]), norm]
    embedding.embed(layers, data, out=str(tmp_path / "rows.npy"))
    assert norm.training and all((norm.state_dict()[name] == value).all() for name, value in state.items())


@pytest.fixture()
def typed(dataset, tmp_path):
    """A dataset of several types, and of two of these, names, features and edges."""
    data = tmp_path / "typed"
    shutil.copytree(dataset("typed"), data)
    content = json.loads((data / "dataset.json").read_text())["content"]
    counts = [t["count"] for t in content["node_types"]]
    offsets, names = np.cumsum([0, *counts]), [t["name"] for t in content["node_types"]]
    x = {name: torch.from_numpy(column(data, "feature", np.float32, (8,), f"nodes/{t}"))
         for t, name in enumerate(names[:2])}
    indptr, source = column(data, "indptr", np.int64), column(data, "indices", np.int32)
    target, kind = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), column(data, "type", np.uint8)
    edges = {}
    for e, of in enumerate(content["edge_types"][:3]):  # institutions have no features, and nothing here needs them
        ends = np.stack([source[kind == e] - offsets[names.index(of["source"])],
                         target[kind == e] - offsets[names.index(of["target"])]])
        edges[of["source"], of["relation"], of["target"]] = torch.from_numpy(ends).long()
    return data, names[:2], x, edges


def whole(layers, x, edges):
    """What layers of PyG make of the whole graph."""
    with torch.no_grad():
        for part in layers:
            x = part(x, edges) if hasattr(part, "convs") else {name: part(v) for name, v in x.items()}
    return x


def test_norms_and_attention_of_typed_graphs_are_known(typed, tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    data, names, x, edges = typed
    within = next(e for e in edges if e[0] == e[2])

    def attention(inputs, width, **options):
        return nn.HeteroConv({e: nn.GATConv((inputs, inputs), width, heads=2, **options) for e in edges}, aggr="mean")

    attentive = [attention(8, 3, add_self_loops=False), torch.nn.ReLU(),
                 attention(6, 4, add_self_loops=False, concat=False)]
    out = str(tmp_path / "rows.npy")
    ends = edges[within].numpy()  # of several edges from a node to itself PyG keeps one
    _, loops = np.unique(ends[0][ends[0] == ends[1]], return_counts=True)
    assert (loops > 1).any()
    for layers, name in ((attentive, names[0]), (attentive, names[1]),
                         ([nn.HeteroConv({within: nn.GCNConv(8, 5)})], within[2]),
                         ([nn.HeteroConv({within: nn.GATConv(8, 5)})], within[2])):
        embedding.embed(layers, data, out=out, node_type=name, force=True)
        np.testing.assert_allclose(np.load(out), whole(layers, x, edges)[name].numpy(), rtol=1e-3, atol=1e-4)
    mixed = nn.HeteroConv({within: nn.GCNConv(8, 4), ("a", "b", "c"): nn.SAGEConv((8, 8), 4)})
    with pytest.raises(OptionError, match="must have one reduction and one width"):
        embedding.embed([mixed], data, out=out, force=True)


def test_convolutions_of_typed_graphs_are_known(typed, tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(1)
    data, names, x, edges = typed

    def hetero(width, aggr):
        return nn.HeteroConv({e: nn.SAGEConv((width, width), 6 + n, aggr="max" if n else "mean")
                              for e in edges for n in [width % 2]}, aggr=aggr)

    layers = [hetero(8, "sum"), torch.nn.ReLU(), hetero(6, "mean")]
    out = tmp_path / "rows.npy"
    h = whole(layers, x, edges)
    for name in names:
        embedding.embed(layers, data, out=str(out), node_type=name, force=True)
        np.testing.assert_allclose(np.load(out), h[name].numpy(), rtol=1e-4, atol=1e-4)
    embedding.embed(layers, data, out="rows", node_type="author")
    content = json.loads((data / "dataset.json").read_text())["content"]
    assert [c["owner"] for c in content["columns"] if c["name"] == "rows"] == ["nodes/1"]
    with pytest.raises(OptionError, match="over edges of 2 types: give a dict"):
        embedding.embed([embedding.Layer("sum", 8, lambda own, sums: own)], data, out=str(out), force=True)
    with pytest.raises(OptionError, match="no function for nodes of type 'author'"):
        embedding.embed([embedding.Layer("sum", 8, {"paper": lambda own, sums: own})] * 2, data, out=str(out),
                        force=True)
    with pytest.raises(KhopError, match='nodes of type "institution" have no features'):
        embedding.embed(layers, data, out=str(out), node_type="institution", force=True)
