"""Rows that follow changes (khop.embedding.Live): after drawn changes they are those of khop.embedding.embed over a
dataset with all of them. What khop acknowledged is there after kills, and errors leave rows as they were.

KHOP_DRAWS says how many changes are drawn, and KHOP_DRAW_SEED from what.
"""
import gc
import os
import random
import select
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import khop
from conftest import NIGHT, PATIENCE, run

torch = pytest.importorskip("torch")

from khop import KhopError, OptionError, embedding  # noqa: E402
from khop.embedding import live as at_work  # noqa: E402

DRAWS = int(os.environ.get("KHOP_DRAWS", 96 if NIGHT else 24))
SEED = int(os.environ.get("KHOP_DRAW_SEED", "20261201"))
WIDTH = 5
ONE = ("node", "to", "node")
SEVERAL = [("a", "to", "b"), ("b", "back", "a"), ("a", "likes", "a")]
CHECKPOINTS = ["sage", "gcn", "gin", "gat"]


class Graph:
    """A graph as a test knows it: features of node types, and edges of edge types."""

    def __init__(self, draw, types=(ONE,)):
        self.draw = draw
        nodes = sorted({of for edges in types for of in edges[::2]})
        self.x = {of: self.rows(draw.randint(5, 60)) for of in nodes}
        self.edges = {of: self.pairs(of, draw.randint(10, 200)) for of in types}

    def rows(self, count):
        return np.array([self.draw.gauss(0, 1) for _ in range(count * WIDTH)], "float32").reshape(-1, WIDTH)

    def pairs(self, of, count):
        ends = [len(self.x[of[0]]), len(self.x[of[2]])]
        return [(self.draw.randrange(ends[0]), self.draw.randrange(ends[1])) for _ in range(count)]

    def write(self, path):
        parts = {of: {"x": x, "num_nodes": len(x)} for of, x in self.x.items()}
        if ONE in self.edges:
            split = np.arange(len(self.x["node"])) % 3
            parts["node"].update(y=split, train_mask=split == 0, val_mask=split == 1, test_mask=split == 2)
        parts.update((of, {"edge_index": ends(edges)}) for of, edges in self.edges.items())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", khop.KhopWarning)
            khop.write(path, parts, force=True)
        return path

    def change(self):
        """Draws an update, makes it here, and returns its arguments."""
        draw, features, add, remove = self.draw, {}, {}, {}
        for of, x in self.x.items():
            if draw.random() < .5:
                new, some = draw.choice([0, 0, 1, 3]), draw.sample(range(len(x)), draw.randint(0, 3))
                ids = some + list(range(len(x), len(x) + new))
                draw.shuffle(ids)
                rows = self.rows(len(ids))
                self.x[of] = np.concatenate([x, np.zeros((new, WIDTH), "float32")])
                self.x[of][ids] = rows
                of_ids, of_rows = draw.choice([list, np.array, torch.tensor]), draw.choice([np.array, torch.tensor])
                features[of] = of_ids(ids), of_rows(rows)
        for of, edges in self.edges.items():
            draw.shuffle(edges)
            remove[of] = ends(edges[:draw.randint(0, min(3, len(edges)))])
            del edges[:remove[of].shape[1]]
            more = self.pairs(of, draw.randint(0, 3))
            more += more[:draw.randint(0, 1)]
            edges += more
            add[":".join(of) if draw.random() < .5 else of] = torch.tensor(ends(more))
        if ONE in self.edges and draw.random() < .5:  # a graph of one type needs no names
            features, add, remove = (next(iter(of.values()), None) for of in (features, add, remove))
        return {"features": features or None, "add": add, "remove": remove}


def ends(edges):
    """Edges as PyG's edge_index."""
    return np.array(edges, "int64").reshape(-1, 2).T


def stacks():
    """Layers, by a name: whose node type, the types of edges, and a function that makes them."""
    nn = pytest.importorskip("torch_geometric.nn")
    relu = torch.nn.ReLU()

    def mlp(inputs, outputs):
        return torch.nn.Sequential(torch.nn.Linear(inputs, 6), torch.nn.ReLU(), torch.nn.Linear(6, outputs))

    def hetero(of):
        return nn.HeteroConv({edges: of() for edges in SEVERAL}, aggr="mean")

    return {
        "exact": (None, [ONE], lambda: [
            embedding.Layer("sum", WIDTH, lambda own, sums: own - 2 * sums),
            embedding.Layer("mean", 3, lambda own, sums: own[:, :3] * .5 + sums[:, 1:4]),
            embedding.Layer("max", 3, lambda own, sums: torch.where(own > sums, own, sums * .25))]),
        "SAGEConv": (None, [ONE], lambda: [nn.SAGEConv(WIDTH, 8), relu, nn.SAGEConv(8, 4, aggr="max")]),
        "GCNConv": (None, [ONE], lambda: [nn.GCNConv(WIDTH, 8), relu, nn.GCNConv(8, 4)]),
        "GINConv": (None, [ONE], lambda: [nn.GINConv(mlp(WIDTH, 8)), torch.nn.BatchNorm1d(8), relu,
                                          nn.GINConv(mlp(8, 4))]),
        "GATConv": (None, [ONE], lambda: [nn.GATConv(WIDTH, 4, heads=2), torch.nn.ELU(), nn.GATConv(8, 3)]),
        "SAGEConv of types": ("a", SEVERAL, lambda: [hetero(lambda: nn.SAGEConv((WIDTH, WIDTH), 6)), relu,
                                                     hetero(lambda: nn.SAGEConv((6, 6), 4))]),
        "GATConv of types": ("b", SEVERAL, lambda: [
            hetero(lambda: nn.GATConv((WIDTH, WIDTH), 3, heads=2, add_self_loops=False)), relu,
            hetero(lambda: nn.GATConv((6, 6), 4, add_self_loops=False))]),
    }


def made(program, model, graph, folder, node_type=None):
    """Rows of a dataset with the graph as it is now."""
    path, out = graph.write(folder / "now"), folder / "now.npy"
    if isinstance(model, list):
        embedding.embed(model, path, out=str(out), node_type=node_type, force=True)
    else:
        run(program, "embed", path, "--checkpoint", model, "--out", out, "--force")
    return np.load(out)


def follow(program, model, graph, folder, same, node_type=None):
    """Compares rows after drawn updates; same is called with both."""
    path, generation = graph.write(folder / "data"), 0
    live = embedding.Live(path, model, node_type=node_type)
    for _ in range(6):
        change = graph.change()
        report = live.update(**change)
        generation += 1
        if graph.draw.random() < .3:
            live.compact()
        if graph.draw.random() < .3:
            live.close()
            live = embedding.Live(path, model, node_type=node_type)
        with pytest.raises(OptionError, match="no edge from 0 to 0"):
            live.update(add={edges: [[0], [0]] for edges in graph.edges},
                        remove={next(iter(graph.edges)): np.zeros((2, 1000), int)})
        rows, want = live.rows(), made(program, model, graph, folder, node_type)
        assert (live.generation, live.nodes, live.width) == (generation, *want.shape)
        assert (report["generation"], report["nodes"]) == (generation, len(want))
        same(rows, want)
        some = [graph.draw.randrange(len(want)) for _ in range(7)]
        assert (live.rows(some) == rows[some]).all() and all(
            (live.rows(of) == rows[of]).all() for of in (slice(2, -1), slice(None, 3, -2)))
    live.close()


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_rows_of_checkpoints_are_those_of_a_dataset_with_the_changes(program, tmp_path, kind):
    print(f"KHOP_DRAW_SEED={SEED}")

    def same(rows, want):
        assert rows.tobytes() == want.tobytes()

    for number in range(max(1, DRAWS // 24)):
        graph = Graph(random.Random(f"{SEED} {kind} {number}"))
        folder = tmp_path / str(number)
        folder.mkdir()
        run(program, "train", graph.write(folder / "first"), "--model", kind, "--checkpoint", folder / "model",
            "--epochs", "1", "--hidden", "4", "--layers", "2", "--fanouts", "-1,-1",
            *["--heads", "2"] * (kind == "gat"))
        follow(program, folder / "model", graph, folder, same)


@pytest.mark.parametrize("kind", ["exact", "SAGEConv", "GCNConv", "GINConv", "GATConv", "SAGEConv of types",
                                  "GATConv of types"])
def test_rows_of_layers_are_those_of_a_dataset_with_the_changes(program, tmp_path, kind):
    """Beside the last bits, which torch rounds by a row's place in a block."""
    print(f"KHOP_DRAW_SEED={SEED}")
    node_type, types, layers = stacks()[kind]
    equal = []

    def same(rows, want):
        assert np.abs(rows - want).max(initial=0) <= 1e-6 * np.abs(want).max(initial=0)
        equal.append((rows.view(np.int32) == want.view(np.int32)).all(axis=1))

    for number in range(max(1, DRAWS // 24)):
        torch.manual_seed(number)
        folder = tmp_path / str(number)
        folder.mkdir()
        follow(program, layers(), Graph(random.Random(f"{SEED} {kind} {number}"), types), folder, same, node_type)
    share = np.concatenate(equal).mean()
    print(f"{kind}: {sum(map(np.all, equal))} of {len(equal)} times all bits are the same, {share:.2%} of rows")
    assert kind != "exact" or share == 1


# --- what is given ---

@pytest.fixture()
def data(tmp_path):
    """A dataset of 40 nodes, each with its number as features, and a ring of edges."""
    ids = np.arange(40)
    path = tmp_path / "data"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", khop.KhopWarning)
        khop.write(path, {"edge_index": np.stack([ids, (ids + 1) % 40]), "num_nodes": 40,
                          "x": np.repeat(ids.astype("float32"), 2).reshape(40, 2)})
    return path


SUM = [embedding.Layer("sum", 2, lambda own, sums: sums)]
OWN = [embedding.Layer("rows", 2, lambda own, sums: own * 1)]


def test_arrays_of_all_kinds_give_the_same_rows(program, data):
    """Ids of nodes and ends of edges, as whole numbers of any width; rows of any numbers that float32 holds."""
    whole = [list, tuple, torch.tensor, np.array,
             *(lambda of, d=d: np.array(of, d) for d in ("uint8", "int32", "uint64")),
             lambda of: torch.tensor(of, dtype=torch.int32), lambda of: np.array(of)[..., ::-1][..., ::-1]]
    real = [list, np.array, lambda of: np.array(of, "int64"), lambda of: np.array(of, "float64", order="F"),
            lambda of: np.array(of, "float16"), lambda of: torch.tensor(of, dtype=torch.float64),
            lambda of: torch.tensor(of, dtype=torch.bfloat16), lambda of: torch.tensor(of).float().requires_grad_()]
    with embedding.Live(data, SUM) as live:
        for n, (ids, rows) in enumerate((ids, rows) for ids in whole for rows in real):
            of = [[float(n), 2.], [3., 4.]]
            live.update((ids([7, 9]), rows([[n, 2], [3, 4]] if rows is real[2] else of)), ids([[7, 9], [20, 20]]),
                        ids([[19], [20]]) if n == 0 else ids([[7, 9], [20, 20]]))
            assert (live.rows(ids([20, 8, 20])) == [[n + 3, 6], [n, 2], [n + 3, 6]]).all()
        live.update(features=([1], [[.1, 1 / 3]]))
        assert (live.rows([2]) == torch.tensor([[.1, 1 / 3]]).numpy()).all()
        assert live.rows([]).shape == (0, 2) and live.rows(slice(40, None)).shape == (0, 2)
        before = live.rows()
        assert live.update()["generation"] == live.generation == n + 3 and (live.rows() == before).all()
        live.update(([], []), np.zeros((2, 0)), [[], []])
        assert (live.rows() == before).all() and before.dtype == np.float32


INVALID = {  # each is an update, and what its error says
    "features: must be (ids, rows), with rows [n, 2]": ([1],),
    "features: ids: float64: must be ids [n], whole numbers": (([1.], [[1., 2.]]),),
    "features: ids: the shape [1, 1]: must be ids [n]": (([[1]], [[1., 2.]]),),
    "features: ids: bool: must be ids [n], whole numbers (numpy.flatnonzero makes ids of a mask)": (
        (np.ones(1, bool), [[1., 2.]]),),
    "features: rows: the shape [1, 3]: must be [1, 2]": (([1], [[1., 2., 3.]]),),
    "features: rows: the shape [2]: must be [1, 2]": (([1], [1., 2.]),),
    "features: rows: the shape [0]: must be [1, 2]": (([1], None),),
    "features: rows: str: must be numbers [1, 2]": (([1], "rows"),),
    "features: rows: row 1 has 0.1 in column 0, which float32 does not hold exactly": (
        ([1, 2], np.array([[.5, .5], [.1, .5]])),),
    "features: rows: row 0 has 16777217 in column 1": (([1], np.array([[1 << 24, (1 << 24) + 1]])),),
    "features: rows: row 0 has 9223372036854775807": (([1], np.array([[(1 << 63) - 1, 0]])),),
    "features: rows: row 0 has 1e+300": (([1], np.array([[1e300, 0]])),),
    "id 1 has NaN in column 1; give finite numbers": (([1], np.array([[0, np.nan]])),),
    "id 1 has +Inf in column 0; give finite numbers": (([1], [[1e300, 0]]),),
    "features['paper']: there are no such nodes: name one of 'node'": ({"paper": ([1], [[1., 2.]])},),
    "id 41, and there are 40 nodes": (([41], [[1., 2.]]),),
    "id 1 is there twice": (([1, 1], [[1., 2.]] * 2),),
    "add: the shape [2]: must be edges [2, n]": (None, [1, 2]),
    "add: the shape [3, 2]: must be edges [2, n]": (None, torch.zeros(3, 2, dtype=int)),
    "add: float32: must be edges [2, n]": (None, torch.zeros(2, 2)),
    "add: 18446744073709551615: no node has such an id": (None, np.full((2, 1), (1 << 64) - 1, "uint64")),
    "add node:edge:node: edge 1, from 2 to 40": (None, [[1, 2], [2, 40]]),
    'no edge type "cites"': (None, {"cites": [[1], [2]]}),
    "add: 7 is no type: name one of 'node:edge:node'": (None, {7: [[1], [2]]}),
    "remove['to']: list: must be edges [2, n]": (None, None, {"to": ["a", "b"]}),
    "remove node:edge:node: there is no edge from 1 to 1": (None, None, [[0, 1], [1, 1]]),
}


def test_errors_name_what_is_invalid_and_nothing_changes(program, data):
    with embedding.Live(data, SUM) as live:
        before = live.rows()
        for says, change in INVALID.items():
            with pytest.raises(OptionError) as raised:
                live.update(*change)
            assert says in str(raised.value)
        for says, nodes in {"node 40, and there are 40": [40], "node -1": [-1], "nodes: the shape []: must be ids": 7,
                            "nodes: float64": [.5], "nodes: bool": [True]}.items():
            with pytest.raises(OptionError, match=says.replace("[]", r"\[\]")):
                live.rows(nodes)
        assert live.generation == 0 and (live.rows() == before).all()


def test_types_are_named_where_there_are_several(program, tmp_path):
    draw = random.Random(SEED)
    graph = Graph(draw, SEVERAL)
    path = graph.write(tmp_path / "data")
    layer = [embedding.Layer("sum", 2, {of: lambda own, sums: own[:, :2] for of in graph.x})]
    with embedding.Live(path, layer, node_type="b") as live:
        with pytest.raises(OptionError, match="features: there are several types: give a dict by type, of 'a', 'b'"):
            live.update(([1], graph.rows(1)))
        with pytest.raises(OptionError, match="add: there are several types: give a dict by type, of 'a:likes:a', "):
            live.update(add=[[1], [1]])
        live.update({"b": ([1], np.full((1, WIDTH), 7.)), "a": ([2], np.zeros((1, WIDTH)))})
        assert (live.rows([1]) == 7).all() and live.nodes == len(graph.x["b"])


def test_nodes_without_features_come_without_rows(program, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", khop.KhopWarning)
        khop.write(tmp_path / "data", {
            "item": {"x": np.ones((3, 2), "float32"), "num_nodes": 3}, "tag": {"num_nodes": 2},
            ("item", "to", "item"): {"edge_index": np.array([[0, 1], [1, 2]])},
            ("tag", "of", "item"): {"edge_index": np.array([[0], [1]])}})
    layer = [embedding.Layer("rows", 2, {"item": lambda own, sums: own * 2})]
    with embedding.Live(tmp_path / "data", layer, node_type="item") as live:
        live.update({"tag": ([2, 3], None), "item": ([3], [[5., 5.]])}, {"of": [[3, 2], [3, 0]]})
        assert live.rows().tolist() == [[2, 2]] * 3 + [[10, 10]]
        with pytest.raises(OptionError, match=r"features\['tag'\]: rows: the shape \[1, 2\]: must be \[1, 0\]"):
            live.update({"tag": ([4], [[1., 1.]])})


def test_options_and_layers_that_khop_does_not_know_are_refused(program, data, tmp_path):
    nn = pytest.importorskip("torch_geometric.nn")
    for says, options in {"max_memory is 1.00 kB": {"max_memory": 1000}, "workers is -1": {"workers": -1},
                          'node_type: there are no nodes of type "x"': {"node_type": "x"}}.items():
        with pytest.raises(OptionError, match=f"^{says}"):
            embedding.Live(data, SUM, **options)
    for says, model in {"GATv2Conv is not supported": [nn.GATv2Conv(2, 2)], r"ReLU\(\) is not a layer": torch.nn.ReLU(),
                        "improved=True is not supported": [nn.GCNConv(2, 2, improved=True)],
                        "cannot be copied": [embedding.Layer("sum", 2, threading.Lock())]}.items():
        with pytest.raises(OptionError, match=says):
            embedding.Live(data, model)
    with pytest.raises(OptionError, match="name tells layers apart"):
        embedding.Live(data, tmp_path / "model", name="a")
    with pytest.raises(KhopError, match="no such file"):
        embedding.Live(data, tmp_path / "model")
    with pytest.raises(KhopError, match="no dataset|no such file"):
        embedding.Live(tmp_path / "none", SUM)


# --- layers ---

def test_errors_of_layers_are_raised_and_old_rows_stay(program, data, monkeypatch):
    wrong, made_by = [], at_work.Served

    def layer(own, sums):
        return wrong[0](sums) if wrong else sums

    def broken(error):
        def function(sums):
            raise error
        return function

    with embedding.Live(data, [embedding.Layer("sum", 2, layer)]) as live:
        before = live.rows()
        change = {"features": ([1], [[5., 6.]]), "add": [[3], [9]]}
        for error, says, function in [
                (ZeroDivisionError, "nothing to divide.*layer 1", broken(ZeroDivisionError("nothing to divide"))),
                (KeyboardInterrupt, "layer 1", broken(KeyboardInterrupt())),
                (OptionError, r"made rows of the shape \(3, 1\), not \(3, 2\)", lambda sums: sums[:, :1]),
                (KhopError, "NaN", lambda sums: sums * float("nan")),
                (khop.BusyError, "waits for the layer", lambda sums: live.rows())]:
            wrong[:] = [function]
            with pytest.raises(error, match=says):
                live.update(**change)
            wrong.clear()
            assert live.generation == 0 and (live.rows() == before).all()
        live.update(**change)
        assert live.generation == 1 and (live.rows([2, 9]) == [[5, 6], [11, 11]]).all()
    wrong.append(broken(ZeroDivisionError("at first")))
    served = []
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError, match="at first") as raised:
        patched.setattr(at_work, "Served", lambda *of, **options: served.append(made_by(*of, **options)) or served[0])
        embedding.Live(data, [embedding.Layer("sum", 2, layer)])
    assert raised.tb and served[0]._said.closed  # though the traceback has it
    wrong.clear()
    embedding.Live(data, [embedding.Layer("sum", 2, layer)]).close()  # nobody else has the journal open


def test_layers_are_as_they_were_when_it_was_opened(program, data, tmp_path):
    """In evaluation mode, without gradients, whatever is trained meanwhile."""
    nn = pytest.importorskip("torch_geometric.nn")
    conv, norm = nn.SAGEConv(2, 3), torch.nn.BatchNorm1d(3)
    own = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(.5))

    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.own = own

        def forward(self, own, sums):
            assert not torch.is_grad_enabled()
            return self.own(own)

    model = [conv, norm, torch.nn.Dropout(.5), embedding.Layer("rows", 3, Last())]
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    with embedding.Live(data, model) as live:
        before = live.rows()
        assert all(module.training for module in (conv, norm, own))
        embedding.embed(model, data, out=str(tmp_path / "rows.npy"))
        assert (np.load(tmp_path / "rows.npy") == before).all()
        assert all((norm.state_dict()[name] == value).all() for name, value in state.items())
        with torch.no_grad():
            for parameter in [*conv.parameters(), *norm.parameters(), *own.parameters()]:
                parameter += 1
        live.update(features=([0], [[0., 0.]]))  # what it has
        assert (live.rows() == before).all()
        live.update(features=([0], [[9., 9.]]))
        differ = (live.rows() != before).any(axis=1)
        assert differ[:2].all() and not differ[2:].any()
    with pytest.raises(KhopError, match="another model or other layers"):
        embedding.Live(data, model)


def test_a_name_is_that_of_layers_which_have_one_journal(program, data, tmp_path):
    journal = tmp_path / "journal"
    for n in (1, 2):
        with embedding.Live(data, OWN, name="a", journal=str(journal)) as live:
            assert live.update(features=([n], [[n + 70, 1]]))["generation"] == n
    assert os.listdir(journal) and sorted(os.listdir(tmp_path)) == ["data", "journal"]
    with embedding.Live(data, OWN, name="a", journal=journal, workers=1, max_memory=1 << 30) as live:
        assert live.rows([1, 2, 3]).tolist() == [[71, 1], [72, 1], [3, 3]]
        with pytest.raises(KhopError, match="another process has it open"):
            embedding.Live(data, OWN, name="a", journal=journal)
    with pytest.raises(KhopError, match="another model or other layers"):
        embedding.Live(data, OWN, name="b", journal=journal)


# --- ends ---

def wait(pid):
    """Waits until a process has ended, which is nobody's child perhaps."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], PATIENCE)[0], "it has not ended"
    finally:
        os.close(fd)


def test_what_was_acknowledged_is_there_after_a_kill(program, data):
    with embedding.Live(data, OWN) as live:
        for n in range(20):
            live.update(features=([n, 40 + n], [[n + 100, 1], [n, 7]]))
        live.compact()
        live.update(features=([20], [[120, 1]]))
        want = live.rows()
        os.kill(live._served.pid, signal.SIGKILL)
        for ask in (live.rows, live.update, live.compact):
            with pytest.raises(KhopError, match="ended by signal 9 .SIGKILL.*max_memory=.*open another Live"):
                ask()
        assert live.generation == 21 and live.nodes == 60
    with pytest.raises(KhopError, match="ended by signal 9"):
        live.rows()
    with embedding.Live(data, OWN) as again:
        assert again.generation == 21 and (again.rows() == want).all()


def test_a_kill_while_a_layer_computes_is_an_error_too(program, data):
    kill = []
    layer = [embedding.Layer("rows", 2, lambda own, sums: (
        [os.kill(live._served.pid, signal.SIGKILL) for _ in kill], own * 1)[1])]
    with embedding.Live(data, layer, name="a") as live:
        live.update(features=([1], [[8., 8.]]))
        kill.append(1)
        with pytest.raises(KhopError, match="ended by signal 9"):
            live.update(features=([1], [[9., 9.]]))
        kill.clear()
    with embedding.Live(data, layer, name="a") as live:
        assert live.generation == 1 and live.rows([1]).tolist() == [[8, 8]]


def test_a_call_that_is_interrupted_ends_khop(program, data, monkeypatch):
    """Its answer is nobody's: the next call must not take it for its own."""
    with embedding.Live(data, OWN) as live:
        def interrupted():
            raise KeyboardInterrupt
        monkeypatch.setattr(live._served, "line", interrupted)
        with pytest.raises(KeyboardInterrupt):
            live.update(features=([1], [[8., 8.]]))
        with pytest.raises(ProcessLookupError):
            os.kill(live._served.pid, 0)
        monkeypatch.undo()
        with pytest.raises(KhopError, match="interrupted by KeyboardInterrupt.*open another Live"):
            live.rows()
    with embedding.Live(data, OWN) as live:
        assert live.rows([1]).tolist() == [[8, 8] if live.generation else [1, 1]]


def test_closed_and_forgotten_ones_have_ended(program, data):
    live = embedding.Live(data, OWN)
    first = live._served.pid
    live.close()
    live.close()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    with pytest.raises(KhopError, match="this Live is closed: open another"):
        live.rows()
    live = embedding.Live(data, OWN)
    second = live._served.pid
    del live
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


PROGRAM = """
import os, sys
from khop import embedding
live = embedding.Live(sys.argv[1], [embedding.Layer("rows", 2, lambda own, sums: own * 1)], name="a")
live.update(features=([1], [[8., 8.]]))
print(live._served.pid, flush=True)
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_khop_ends_with_its_process(program, data, python, end):
    said, _ = python(PROGRAM + end, data).communicate(timeout=PATIENCE)
    wait(int(said))
    with embedding.Live(data, OWN, name="a") as live:
        assert live.rows([1]).tolist() == [[8, 8]]


def test_khop_ends_with_its_process_whoever_has_the_pipes(program, data, python):
    said, _ = python(PROGRAM + """
import signal
held = os.fork()
if held == 0:
    os.close(1)
    os.close(2)
    signal.pause()
print(held, flush=True)
os.kill(os.getpid(), 9)
""", data).communicate(timeout=PATIENCE)
    pid, held = map(int, said.split())
    wait(pid)
    os.kill(held, signal.SIGKILL)


def test_forks_are_refused_and_their_parent_goes_on(program, data, python):
    process = python(PROGRAM + """
import khop, signal
for n in range(4):
    pid = os.fork()
    if pid == 0:
        for ask in (live.rows, live.update, live.compact):
            try:
                ask()
            except khop.ForkError as error:
                assert f"belongs to process {os.getppid()}" in str(error)
            else:
                os._exit(4)
        live.close()
        if n % 2:
            del live
        sys.exit(0)  # runs finalisers, which must leave the parent's alone
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, n
    assert live.update(features=([1], [[n, n]]))["generation"] == n + 2
assert live.rows([1]).tolist() == [[3, 3]]
held = os.fork()  # has the pipes, too, and does not keep the parent from ending khop
if held == 0:
    signal.pause()
live.close()
os.kill(held, 9)
assert live._served._process.returncode >= 0, "it had to be killed"
print("done")
""", data)
    said, wrong = process.communicate(timeout=PATIENCE)
    assert said.endswith("done\n"), wrong


def test_threads_take_turns(program, data, monkeypatch):
    """Rows are of one generation, also where they are exchanged in several pieces."""
    monkeypatch.setattr(at_work, "_AT_ONCE", 100)
    seen, wrong = [], []
    with embedding.Live(data, OWN) as live:
        live.update(features=(range(40), np.zeros((40, 2))))

        def changes(first):
            for n in range(first, first + 25):
                live.update(features=(np.arange(40), np.full((40, 2), n)))

        def reads():
            while any(thread.is_alive() for thread in threads[:3]):
                rows = live.rows()
                seen.append(rows[0, 0])
                if (rows != rows[0, 0]).any():
                    wrong.append(rows)

        threads = [threading.Thread(target=changes, args=(100 * n,)) for n in range(3)] + [
            threading.Thread(target=reads) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and len(set(seen)) > 1
        assert live.generation == 76 and live.rows([7])[0, 0] in (24, 124, 224)


def test_nothing_is_left_in_shared_memory(program, data):
    before = set(os.listdir("/dev/shm"))
    with embedding.Live(data, SUM) as live:
        live.update(features=(range(40), np.ones((40, 2))))
        assert set(os.listdir("/dev/shm")) <= before
        assert os.fstat(live._room.number).st_size == 0
    code = "import khop.embedding as e\nassert 'torch' not in __import__('sys').modules"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
