"""Computes rows of a torch module for every node, by ``khop embed``: khop sums over edges, in any memory, and torch
computes the dense part of each layer, some thousand nodes at a time.

    khop.embedding.embed([conv1, torch.nn.ReLU(), conv2], "products.khop", out="embedding")

docs/embed.md explains how it works, and what it computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import mmap
import os
import subprocess
import tempfile
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import binary as _binary
from .errors import KhopError, OptionError
from ._data.info import info

__all__ = ["Layer", "embed"]

ROWS = 4096
"""How many nodes a layer's function has at a time, but for the last."""


Function = Callable[[Any, Any], Any]
Edges = Tuple[str, str, str]


@dataclasses.dataclass
class Layer:
    """One layer: a reduction over all in-edges of a node, the width of the layer's rows, and the function that makes
    them. The function gets some nodes' own rows of the layer before, and the sums: tensors of float32, valid until it
    returns.

    reduce is "sum", "mean", "max", "gcn" (PyG's norm, with loops), or "rows": nothing is summed, and the sums are None.
    "attend4" is attention of 4 heads: the layer before has made rows of the products, a score per head as a source, and
    one per head as a target; the function gets no own rows. "attend4bare" has no loops. In a graph of several types of
    nodes or edges, function is a dict by node type, and sums are a dict by edge type: ("a", "to", "b"). Rows for
    attention then have these numbers for each edge type, one after the other, in the order of ``khop.info``.
    """

    reduce: str
    width: int
    function: Union[Function, Mapping[str, Function]]


def embed(
    module: Any, dataset: _binary.PathLike, *, out: str = "embedding", nodes: Optional[str] = None,
    node_type: Optional[str] = None, max_memory: Optional[int] = None, force: bool = False, keep: bool = False,
    name: Optional[str] = None, binary: Optional[_binary.PathLike] = None,
) -> dict[str, Any]:
    """Computes rows for every node of a dataset, over all neighbours. It writes them as a column, or to a file whose
    name ends in .npy, or in .parquet (columns id and embedding).

    module is a list, or a torch.nn.Sequential (PyG's too), of layers: ``Layer``, PyG's GCNConv, SAGEConv, GraphConv,
    GINConv and GATConv, HeteroConv of one of those, and, after each of these, modules that compute each row by itself,
    such as ReLU and Linear. They are in evaluation mode meanwhile. The other arguments are those of ``khop embed``;
    node_type is its --type. name tells modules apart when an interrupted run continues; by default it is made of the
    parameters.

    Returns the result of the command. Errors of a layer are raised as they are. Rows of a wrong shape, or that are not
    finite, are an OptionError or KhopError that names nodes and remedy. Finished work is kept: the same call continues
    from there.
    """
    import torch

    layers, modules = _layers(module, lambda: [
        (e["source"], e["relation"], e["target"]) for e in info(dataset, binary)["edge_types"]])
    command = [_binary.find(binary), "embed", os.fspath(dataset), "--json", "--out", out,
               "--layers", ",".join(f"{layer.reduce}:{layer.width}" for layer in layers),
               "--name", name or _name(modules), "--parent", str(os.getpid())]
    for option, value in (("--nodes", nodes), ("--type", node_type), ("--max-memory", max_memory)):
        command += [option, str(value)] if value is not None else []
    with _evaluated(modules), torch.no_grad(), _Room() as room:
        return _serve(command + ["--blocks", room.path] + ["--force"] * force + ["--keep"] * keep, layers, room)


class _Room:
    """Memory that another process writes, too, by its path. It grows with what is asked of it."""

    def __init__(self) -> None:
        import torch

        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._file = tempfile.NamedTemporaryFile(prefix="khop-embed-", dir=folder)
        self.path, self._floats = self._file.name, torch.empty(0)

    def __enter__(self) -> _Room:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def floats(self, count: int) -> Any:
        """So many floats from the beginning, as a tensor that is valid until more are asked for."""
        import torch

        if len(self._floats) < count:
            self._file.truncate(4 * count)
            self._floats = torch.frombuffer(mmap.mmap(self._file.fileno(), 4 * count), dtype=torch.float32)
        return self._floats


def _serve(command: Sequence[str], layers: Sequence[Layer], room: _Room) -> dict[str, Any]:
    """Runs the command, and computes the blocks that it asks for."""
    with tempfile.TemporaryFile() as said, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as process:
        assert process.stdin is not None and process.stdout is not None
        failed: Optional[BaseException] = None
        rest = []
        for line in process.stdout:
            if not line.startswith(b'{"layer"'):
                rest.append(line)
                continue
            try:
                _block(json.loads(line), layers, room)
                answer = b"\n"
            except BaseException as error:
                failed = error
                answer = str(error).replace("\n", " ").encode()[:1000] + b" \n"
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(answer)
                process.stdin.flush()
        process.stdin.close()
        if process.wait():
            said.seek(0)
            text = said.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            if failed is not None:
                failed.args = (f"{failed} ({text})", *failed.args[1:])
                raise failed
            raise KhopError(text)
        result: dict[str, Any] = json.loads(b"".join(rest))
        return result


def _block(line: dict[str, Any], layers: Sequence[Layer], room: _Room) -> None:
    """Computes the rows of a block, in memory that the command has mapped, too."""
    layer, nodes, own, to = layers[line["layer"]], line["nodes"], line["own_floats"], line["row_floats"]
    rows, sums, at = to // layer.width, {}, own
    memory = room.floats(own + to + sum(s["floats"] for s in line["sums"]))
    for one in line["sums"]:
        sums[tuple(one["edges"].split(":"))] = memory[at:at + one["floats"]].view(rows, -1)
        at += one["floats"]
    function: Any = layer.function
    typed = isinstance(function, Mapping)
    if typed and nodes not in function:
        raise OptionError(f"layer {line['layer'] + 1} has no function for nodes of type {nodes!r}, whose rows it "
                          f"needs: there are {', '.join(map(repr, function))}")
    if len(sums) > 1 and not typed:
        raise OptionError(f"layer {line['layer'] + 1} sums over edges of {len(sums)} types: give a dict of functions "
                          "by the type of nodes")
    given: Any = sums if typed or not sums else next(iter(sums.values()))
    made = (function[nodes] if typed else function)(memory[:own].view(rows, -1) if own else None, given)
    if tuple(made.shape) != (rows, layer.width):
        raise OptionError(f"layer {line['layer'] + 1} made rows of the shape {tuple(made.shape)}, not "
                          f"{(rows, layer.width)}: its width must be that of its rows")
    memory[at:at + to].view(rows, -1).copy_(made)


def _layers(module: Any, types: Callable[[], list[Edges]]) -> tuple[list[Layer], list[Any]]:
    """The layers of a module, and the modules that have parameters. types are the graph's types of edges."""
    layers: list[Layer] = []
    parts = list(module) if hasattr(module, "__iter__") else [module]
    for part in parts:
        known = [part] if isinstance(part, Layer) else _of_pyg(part, types)
        if known:
            layers += known
        elif not layers or not callable(part):
            raise OptionError(f"{part!r} is not a layer: give a khop.embedding.Layer, or {', '.join(_CONVOLUTIONS)} or "
                              "HeteroConv of PyG")
        else:
            layers[-1] = _behind(layers[-1], part)
    return layers, [p for p in parts if hasattr(p, "state_dict")]


def _behind(layer: Layer, part: Any) -> Layer:
    """A layer with a module behind it that computes each row of its own."""
    import torch

    def after(function: Function) -> Function:
        return lambda own, sums: part(function(own, sums))

    with torch.no_grad():
        width = int(part(torch.zeros(2, layer.width)).shape[-1])
    made = layer.function
    return Layer(layer.reduce, width, {name: after(f) for name, f in made.items()} if isinstance(made, Mapping)
                 else after(made))


def _of_pyg(conv: Any, types: Callable[[], list[Edges]]) -> list[Layer]:
    """The layers that a convolution of PyG is; none for other modules."""
    kind = type(conv).__name__
    if kind == "HeteroConv":
        return _of_types(conv, types)
    if kind in _CONVOLUTIONS:
        return _CONVOLUTIONS[kind](conv)
    if hasattr(conv, "propagate"):
        raise OptionError(f"{kind} is not supported: {', '.join(_CONVOLUTIONS)} are, or a khop.embedding.Layer")
    return []


def _of_types(hetero: Any, types: Callable[[], list[Edges]]) -> list[Layer]:
    """HeteroConv: of each type of nodes, what its convolutions make of the sums over their types of edges."""
    import torch

    convs = {tuple(key.split("__")) if isinstance(key, str) else key: conv for key, conv in hetero.convs.items()}
    layers = {edges: _of_pyg(conv, types) for edges, conv in convs.items()}
    shapes = {tuple((layer.reduce, layer.width) for layer in made) for made in layers.values()}
    ways = {"sum": torch.sum, "mean": torch.mean}
    last = next(iter(layers.values()))[-1]
    if len(shapes) != 1:
        raise OptionError(f"{hetero!r} is not supported: its convolutions must have one reduction and one width")
    if hetero.aggr not in ways:
        raise OptionError(f"{hetero!r} reduces by {hetero.aggr!r} over types of edges: khop has sum and mean")

    def of(nodes: str) -> Function:
        functions: dict[Any, Any] = {edges: made[-1].function for edges, made in layers.items() if edges[2] == nodes}
        return lambda own, sums: ways[hetero.aggr](torch.stack([
            function(own, sums[edges]) for edges, function in functions.items()]), dim=0)

    summed = Layer(last.reduce, last.width, {nodes: of(nodes) for nodes in sorted({edges[2] for edges in layers})})
    if not last.reduce.startswith("attend"):
        return [summed]
    return [_scores(convs, types()), summed]


def _scores(convs: Mapping[Any, Any], types: Sequence[Edges]) -> Layer:
    """What attention over edges of some types reads of the nodes: of each type of edges, one behind the other."""
    import torch

    some = next(iter(convs.values()))
    heads, part = some.heads, some.out_channels

    def of(nodes: str) -> Function:
        def function(own: Any, sums: Any) -> Any:
            rows = torch.zeros(len(own), len(types), heads * (part + 2))
            for edges, conv in convs.items():
                row = rows[:, types.index(edges)]
                if edges[0] == nodes:
                    product = (conv.lin_src if getattr(conv, "lin", None) is None else conv.lin)(own)
                    row[:, :heads * part] = product
                    row[:, heads * part:-heads] = (product.view(-1, heads, part) * conv.att_src).sum(-1)
                if edges[2] == nodes:
                    product = (conv.lin_dst if getattr(conv, "lin", None) is None else conv.lin)(own)
                    row[:, -heads:] = (product.view(-1, heads, part) * conv.att_dst).sum(-1)
            return rows.flatten(1)
        return function

    return Layer("rows", len(types) * heads * (part + 2),
                 {nodes: of(nodes) for nodes in sorted({nodes for edges in types for nodes in edges[::2]})})


def _reduction(conv: Any) -> str:
    """What a convolution sums, by khop's name."""
    reduce = {"add": "sum"}.get(conv.aggr, conv.aggr)
    if reduce not in ("sum", "mean", "max"):
        raise OptionError(f"{conv!r} reduces by {reduce!r}: khop has sum, mean and max")
    return str(reduce)


def _plain(conv: Any, **expected: Any) -> None:
    """Refuses a convolution with other options."""
    for name, value in expected.items():
        if getattr(conv, name, value) != value:
            raise OptionError(f"{conv!r} with {name}={getattr(conv, name)!r} is not supported: give a "
                              "khop.embedding.Layer")


def _gcn(conv: Any) -> list[Layer]:
    _plain(conv, normalize=True, add_self_loops=True, improved=False, aggr="add", flow="source_to_target")
    return [Layer("gcn", conv.out_channels, lambda own, sums: _biased(conv, conv.lin(sums)))]


def _biased(conv: Any, rows: Any) -> Any:
    return rows if conv.bias is None else rows + conv.bias


def _sage(conv: Any) -> list[Layer]:
    _plain(conv, normalize=False, project=False, flow="source_to_target")
    return [Layer(_reduction(conv), conv.out_channels, lambda own, sums: conv.lin_l(sums) + (
        conv.lin_r(own) if conv.root_weight else 0))]


def _graph(conv: Any) -> list[Layer]:
    _plain(conv, flow="source_to_target")
    return [Layer(_reduction(conv), conv.out_channels, lambda own, sums: conv.lin_rel(sums) + conv.lin_root(own))]


def _gin(conv: Any) -> list[Layer]:
    _plain(conv, flow="source_to_target")
    last = [m for m in conv.nn.modules() if hasattr(m, "out_features") or hasattr(m, "out_channels")][-1]
    return [Layer(_reduction(conv), getattr(last, "out_features", None) or last.out_channels,
                  lambda own, sums: conv.nn(sums + (1 + conv.eps) * own))]


def _gat(conv: Any) -> list[Layer]:
    """Attention: rows of products and scores, and the sums that these weigh."""
    _plain(conv, negative_slope=0.2, edge_dim=None, aggr="add", flow="source_to_target", res=None)
    heads, part = conv.heads, conv.out_channels
    one = ("", "", "")
    scores = _scores({one: conv}, [one])

    def weighed(own: Any, sums: Any) -> Any:
        return _biased(conv, sums if conv.concat else sums.view(-1, heads, part).mean(dim=1))

    return [Layer("rows", scores.width, scores.function[""]),  # type: ignore[index]
            Layer(f"attend{heads}" + "bare" * (not conv.add_self_loops), heads * part if conv.concat else part,
                  weighed)]


_CONVOLUTIONS: dict[str, Callable[[Any], list[Layer]]] = {
    "GCNConv": _gcn, "SAGEConv": _sage, "GraphConv": _graph, "GINConv": _gin, "GATConv": _gat}


def _name(modules: Sequence[Any]) -> str:
    """Tells modules apart by their parameters."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(repr(module).encode())
        for name, tensor in module.state_dict().items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _evaluated(modules: Sequence[Any]) -> Iterator[None]:
    """Puts modules into evaluation mode, and back."""
    before = [(m, m.training) for module in modules for m in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for module, training in before:
            module.training = training
