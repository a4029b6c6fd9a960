"""Layers whose rows khop computes with torch: what they sum, and the functions that PyG's convolutions come to."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Tuple, Union

import numpy as np

from ..errors import OptionError

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


def layers_of(module: Any, types: Callable[[], list[Edges]]) -> tuple[list[Layer], list[Any]]:
    """The layers of a module, and the modules that compute them. types are the graph's types of edges."""
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
    return layers, modules_of(parts)


def modules_of(parts: Iterable[Any]) -> list[Any]:
    """The modules among parts, and among the functions of these."""
    functions: list[Any] = []
    for part in parts:
        one = part.function if isinstance(part, Layer) else part
        functions += one.values() if isinstance(one, Mapping) else [one]
    return [function for function in functions if hasattr(function, "state_dict")]


def types_of(about: Mapping[str, Any]) -> list[Edges]:
    """The types of edges that khop.info names."""
    return [(e["source"], e["relation"], e["target"]) for e in about["edge_types"]]


def names_of(layers: Sequence[Layer]) -> str:
    """What khop embed calls these layers."""
    return ",".join(f"{layer.reduce}:{layer.width}" for layer in layers)


def _behind(layer: Layer, part: Any) -> Layer:
    """A layer with a module behind it that computes each row of its own."""
    import torch

    def after(function: Function) -> Function:
        return lambda own, sums: part(function(own, sums))

    with torch.no_grad(), evaluated([part] if hasattr(part, "modules") else []):
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


def name_of(modules: Sequence[Any]) -> str:
    """Tells modules apart by their parameters."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(repr(module).encode())
        for name, tensor in module.state_dict().items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def evaluated(modules: Sequence[Any]) -> Iterator[None]:
    """Puts modules into evaluation mode, and back."""
    before = [(m, m.training) for module in modules for m in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for module, training in before:
            module.training = training
