"""Layers of PyG that multiply with their weight before or after they sum over edges, whichever is less work.

A (X W) is (A X) W, where A sums or averages over edges. Both give the layer's result, but sums run over the columns of
X or of X W. A copy of the layer with the same parameters computes the other order. Layers that cannot be copied so stay
as they are: see _as_written.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

import torch
from torch import Tensor

from . import products

LINEAR = 5
"""How many multiplications of a dense product take as long as one number that is added in a sum over edges."""
SCORE = 4
"""How many such numbers take as long as one of a node's row that both scores of attention are made of."""
HEAD = 500_000
"""How many such numbers take as long as the calls for one more head."""


def weight_first(
    edges: int, rows: int, cols: int, inputs: int, outputs: int, learns: bool, learns_x: bool,
) -> bool:
    """Whether multiplying with the weight first is less work. Sums then have the columns of the output, forward and, if
    anything is learned, backward. Otherwise they have those of the input, backward only if x is learned. The dense
    product has a row for each column of the matrix, or for each row of it."""
    dense = inputs * outputs * (1 + learns + learns_x) / LINEAR
    first = edges * outputs * (1 + (learns or learns_x)) + cols * dense
    return first < edges * inputs * (1 + learns_x) + rows * dense


def weight_first_of_heads(
    edges: int, rows: int, cols: int, inputs: int, outputs: int, heads: int, learns: bool, learns_x: bool,
) -> bool:
    """The same of attention. If the weight comes later, each head sums all columns of the input. Scores of nodes come
    of the columns of the output, or of those of the input. Attention itself has a gradient, which costs as much as a
    sum, and through it the sums of the input have one."""
    learning = learns or learns_x
    first = edges * outputs * (1 + 2 * learning) + cols * outputs * (
        inputs * (1 + learns + learns_x) / LINEAR + SCORE * (1 + learning))
    later = edges * heads * inputs * (1 + learning + learns_x) + rows * inputs * outputs * (
        1 + learns + learning) / LINEAR + cols * inputs * heads * 2 * (1 + learns + learns_x) / LINEAR + heads * HEAD
    return first < later


def layers(replace: Callable[[Any, str, Callable[..., Any]], None], wanted: Callable[[], bool]) -> None:
    """Replaces the forward functions of the layers that can be computed in both ways, which they are while that is
    wanted."""
    import torch_geometric.nn as nn
    for name, way in (("GCNConv", _gcn), ("SAGEConv", _of("lin_l")), ("GraphConv", _of("lin_rel")), ("GINConv", _gin),
                      ("SGConv", _sg), ("GATConv", _gat)):
        if hasattr(nn, name):
            layer = getattr(nn, name)
            replace(layer, "forward", _forward(layer, layer.forward, way, wanted))


def _forward(layer: Any, original: Any, way: Callable[..., Any], wanted: Callable[[], bool]) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def forward(self: Any, *given: Any, **named: Any) -> Any:
        if not products.usable() or not wanted() or type(self) is not layer or _as_written(self):
            return original(self, *given, **named)
        try:
            call = signature.bind(self, *given, **named)
        except TypeError:  # the layer says so in its own words
            return original(self, *given, **named)
        copied = way(self, call.arguments["x"], call.arguments["edge_index"])
        if copied is None:
            return original(self, *given, **named)
        call.arguments["self"], call.arguments["x"] = other, _ = copied
        before = dict(other.__dict__)
        y = original(*call.args, **call.kwargs)
        self.__dict__.update((k, v) for k, v in other.__dict__.items() if before.get(k) is not v)  # what it caches
        return y

    return forward


def _as_written(layer: Any) -> bool:
    """Whether a layer must compute as it is written: its sums are not linear, somebody looks at its messages, or torch
    chooses the dtype of each operation."""
    hooked = any(
        value for name, value in layer.__dict__.items()
        if name.endswith("_hooks") and name.startswith(("_propagate", "_message", "_aggregate", "_edge_update")))
    aggr = getattr(layer, "aggr", None)
    return (
        not isinstance(aggr, str) or aggr not in products.SUMS or hooked or bool(getattr(layer, "explain", False))
        or getattr(layer, "decomposed_layers", 1) != 1
        or torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled())


def _plain(linear: Any) -> bool:
    """Whether a module is a Linear and nothing else: nobody looks at what goes through it."""
    import torch_geometric.nn as nn
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return type(linear) in (torch.nn.Linear, nn.Linear) and not any(getattr(linear, h, None) for h in hooks) and type(
        linear.weight) is torch.nn.Parameter  # not one that the first input gives its shape


def _rows(x: Any) -> bool:
    return isinstance(x, Tensor) and x.layout == torch.strided and x.dim() == 2


def _edges(a: Any) -> Optional[int]:
    if isinstance(a, Tensor):
        return a.size(1) if a.layout == torch.strided and a.dim() == 2 else int(a._nnz())
    return int(a.nnz()) if hasattr(a, "nnz") else None


def _first(linear: Any, x: Any, edge_index: Any, times: int = 1, made: bool = False) -> Optional[bool]:
    """Whether to multiply with a weight first; None where that is not known. x is [nodes], or those of sources and
    targets; made says that a gradient reaches it anyway."""
    sources, targets = x if isinstance(x, (tuple, list)) else (x, x)
    edges = _edges(edge_index)
    if not _plain(linear) or not _rows(sources) or not (targets is None or _rows(targets)) or edges is None:
        return None
    learning = torch.is_grad_enabled()
    outputs, inputs = linear.weight.shape
    rows = (sources if targets is None else targets).size(0)
    return weight_first(times * edges, rows, sources.size(0), inputs, outputs,
                        learning and linear.weight.requires_grad, learning and (made or sources.requires_grad))


class _Bias(torch.nn.Module):
    """The rest of a Linear whose weight has multiplied already."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.bias = linear.bias

    def forward(self, x: Tensor) -> Tensor:
        return x if self.bias is None else x + self.bias


def _copy(layer: Any, **modules: Any) -> Any:
    """A layer with the parameters of another, and some other modules."""
    other: Any = object.__new__(type(layer))
    other.__dict__.update(layer.__dict__)
    other.__dict__["_modules"] = {**layer._modules, **modules}
    return other


def _multiplied(x: Any, linear: Any) -> Any:
    if isinstance(x, (tuple, list)):
        return tuple(None if part is None else _multiplied(part, linear) for part in x)
    return torch.nn.functional.linear(x, linear.weight)


def _gcn(layer: Any, x: Any, edge_index: Any) -> Any:
    """It multiplies first."""
    if isinstance(x, (tuple, list)) or layer.lin.bias is not None or _first(layer.lin, x, edge_index) is not False:
        return None
    other = _copy(layer, lin=torch.nn.Identity())
    other.__dict__["propagate"] = lambda *given, **named: layer.lin(layer.propagate(*given, **named))
    return other, x


def _of(name: str) -> Callable[..., Any]:
    """Of layers that sum first, and then multiply with the module of a name; other modules take x as it is."""
    def way(layer: Any, x: Any, edge_index: Any) -> Any:
        linear = getattr(layer, name)
        if not _first(linear, x, edge_index, made=getattr(layer, "project", False)):
            return None
        other = _copy(layer, **{name: _Bias(linear)})

        def propagate(edge_index: Any, *, x: Any, **named: Any) -> Any:
            return layer.propagate(edge_index, x=(_multiplied(x[0], linear), x[1]), **named)
        other.__dict__["propagate"] = propagate
        return other, x
    return way


def _gin(layer: Any, x: Any, edge_index: Any) -> Any:
    """It sums first, and adds x to the sums. Its module is a Linear or begins with one."""
    parts = [layer.nn]
    if type(layer.nn) is torch.nn.Sequential and len(layer.nn) and not layer.nn._forward_hooks:
        parts = list(layer.nn)
    if not _first(parts[0], x, edge_index):
        return None
    other = _copy(layer, nn=torch.nn.Sequential(_Bias(parts[0]), *parts[1:]))
    return other, _multiplied(x, parts[0])


def _sg(layer: Any, x: Any, edge_index: Any) -> Any:
    """It sums several times, and then multiplies. What it caches are sums of x."""
    if layer.cached or isinstance(x, (tuple, list)) or not _first(layer.lin, x, edge_index, layer.K):
        return None
    return _copy(layer, lin=_Bias(layer.lin)), _multiplied(x, layer.lin)


class _Scores(torch.nn.Module):
    """Stands for a Linear whose rows are read for scores alone: returns both scores of each head, of x itself."""

    def __init__(self, linear: Any, attention: tuple[Tensor, ...]) -> None:
        super().__init__()
        heads, width = attention[0].shape[1:]
        parts = linear.weight.view(heads, width, -1)
        self.weights = torch.stack([(a.view(heads, width, 1) * parts).sum(1) for a in attention], 1).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weights)


class _Score:
    """Stands for a vector of attention: its product with both scores is one of them."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __rmul__(self, scores: Tensor) -> Any:
        return scores[..., self.at:self.at + 1]


def _gat(layer: Any, x: Any, edge_index: Any) -> Any:
    """It multiplies first. Later, each head's sums are multiplied with its rows of the weight."""
    linears = {name: linear for name in ("lin", "lin_src", "lin_dst")
               if (linear := getattr(layer, name, None)) is not None}
    sources, targets = x if isinstance(x, (tuple, list)) else (x, x)
    linear, edges, heads = next(iter(linears.values())), _edges(edge_index), layer.heads
    if not all(_plain(each) and each.bias is None for each in linears.values()) or edges is None:
        return None
    if not _rows(sources) or not (targets is None or _rows(targets)) or sources.size(1) != linear.weight.size(1):
        return None
    learned, attention = torch.is_grad_enabled(), (layer.att_src, layer.att_dst)
    outputs, inputs = linear.weight.shape
    if weight_first_of_heads(
            edges, (sources if targets is None else targets).size(0), sources.size(0), inputs, outputs, heads,
            learned and any(t.requires_grad for t in (linear.weight, *attention)), learned and sources.requires_grad):
        return None
    other = _copy(layer, **{name: _Scores(each, attention) for name, each in linears.items()})

    def propagate(edge_index: Any, *, alpha: Tensor, size: Any = None, **_: Any) -> Tensor:
        other.__dict__["out_channels"] = layer.out_channels  # of the result
        given = tuple(None if t is None else t.unsqueeze(1) for t in (sources, targets))
        sums = [layer.propagate(edge_index, x=given, alpha=weights.unsqueeze(1), size=size).squeeze(1)
                for weights in alpha.t().contiguous()]
        parts = linear.weight.view(heads, -1, inputs)
        return torch.stack([torch.nn.functional.linear(y, part) for y, part in zip(sums, parts)], 1)
    other.__dict__.update(propagate=propagate, edge_updater=layer.edge_updater, out_channels=2, att_src=_Score(0),
                          att_dst=_Score(1))
    return other, x
