"""Sums over edges of PyG's layers under torch.compile, and under transforms of torch.func: khop's operations in the
place of gathered rows and their sums.

Rows of messages cannot tell there what they are rows of. So a layer's gathers are noted, and a message that returns
x_j times weights, as its source says, is asked for the weights: it is called with ones in the place of x_j. Compiled
code leaves out the gathers that nothing reads.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import threading
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch import Tensor

from .._native import library as _library
from . import spmm, torch_library

_torch: Any = torch  # what its types do not tell
_OF_TRANSFORMER = "out = out * alpha.view(-1, self.heads, 1)\nreturn out"


class Sums(NamedTuple):
    """What a message returns in the place of a row an edge: x[index] times weights, if there are any."""

    x: Tensor
    index: Tensor
    weights: Optional[Tensor]


class _Noted(threading.local):
    def __init__(self) -> None:
        self.gathered: list[Any] = []


_noted = _Noted()
_compiled: list[Any] = []
"""Rows that a layer has gathered, and of what. torch.compile cannot look into what a thread has of its own, and
compiles in one thread at a time."""


def factor(message: Callable[..., Any]) -> str:
    """Returns the argument of a function message that it returns times weights of edges, if its source says that it
    does nothing else with it; else an empty string."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(message))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError):
        return ""
    if "\n".join(map(ast.unparse, body[-2:])) == _OF_TRANSFORMER:
        return "value_j"
    returned = body[-1].value if isinstance(body[-1], ast.Return) else None
    if isinstance(returned, ast.IfExp) and _is_row(returned.body) and not _reads(returned.test):
        returned = returned.orelse
    return "x_j" if _is_product(returned) and not any(map(_reads, body[:-1])) else ""


def _is_row(node: Any) -> bool:
    return isinstance(node, ast.Name) and node.id == "x_j"


def _reads(node: Any) -> bool:
    return any(map(_is_row, ast.walk(node)))


def _is_product(node: Any) -> bool:
    """Whether an expression is x_j, or x_j times a view of weights with a place for its columns."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return _is_row(node)
    row, weights = (node.left, node.right) if _is_row(node.left) else (node.right, node.left)
    called = weights.func if isinstance(weights, ast.Call) else None
    return _is_row(row) and not _reads(weights) and isinstance(called, ast.Attribute) and called.attr in (
        "view", "unsqueeze")


def _notes() -> Optional[list[Any]]:
    """Where gathers are noted here and now; None where torch runs operations as they are called."""
    if spmm.compiling():
        return _compiled
    return _noted.gathered if _library.loaded() and spmm.transforms() and torch_library.has_rules() else None


def _sums(layer: Any) -> str:
    """The reduction of a layer, if it is a sum or a mean that nobody looks into; else an empty string."""
    module = layer.aggr_module
    if module._forward_hooks or module._forward_pre_hooks or layer.explain:
        return ""
    if not spmm.compiling() and any(
            getattr(layer, f"_{name}_forward{when}_hooks") for name in ("message", "aggregate")
            for when in ("", "_pre")):  # compiled layers of PyG have none
        return ""
    return _reductions.get(type(module), "")


_reductions: dict[type, str] = {}


def patch(replacements: Any, layers: list[Any], reductions: dict[type, str]) -> None:
    """Replaces the messages of layers, and what is around them, while torch looks at operations."""
    base: Any = layers[0]
    if not torch_library.AVAILABLE or not hasattr(base, "_index_select_safe"):
        return
    _reductions.update((cls, reduce) for cls, reduce in reductions.items() if reduce in spmm.SUMS)
    own = {cls: cls.aggregate is base.aggregate for cls in layers}
    for cls in layers:
        name = factor(cls.message) if own[cls] and "message" in vars(cls) else ""
        if name:
            replacements.put(cls, "message", _message(cls.message, name), compiled=True)
    replacements.put(base, "_index_select", _index_select(base._index_select), compiled=True)
    replacements.put(base, "aggregate", _aggregate(base.aggregate), compiled=True)


def _index_select(original: Any) -> Callable[..., Any]:
    def index_select(self: Any, src: Tensor, index: Any) -> Any:
        rows = original(self, src, index)
        notes = _notes()
        if notes is not None and src.dtype in spmm.FLOATS and src.device.type == "cpu":
            if src.dim() in (2, 3) and self.node_dim in (0, -src.dim()) and index.dim() == 1:
                notes.append((rows, src, index))
        return rows
    return index_select


def _message(original: Any, name: str) -> Callable[..., Any]:
    def message(self: Any, *args: Any, **named: Any) -> Any:
        notes = _notes()
        if notes is None:
            return original(self, *args, **named)
        gathered = [g for g in notes if g[0] is named.get(name)]
        notes.clear()
        if not gathered or not _sums(self) or name == "value_j" and named.get("edge_attr") is not None:
            return original(self, *args, **named)
        rows, x, index = gathered[0]
        shape = (index.size(0),) + (1,) if x.dim() == 2 else (index.size(0), x.size(1), 1)
        ones = x.new_ones(1).expand(shape)
        weights = original(self, *args, **{**named, name: ones})
        if weights is ones:
            return Sums(x, index, None)
        if weights.shape != shape or weights.dtype not in (x.dtype, torch.float32):
            return weights * rows
        return Sums(x, index, weights.reshape(index.size(0), -1))
    return message


def _aggregate(original: Any) -> Callable[..., Any]:
    def aggregate(self: Any, inputs: Any, index: Tensor, ptr: Any = None, dim_size: Optional[int] = None) -> Any:
        if not isinstance(inputs, Sums):
            return original(self, inputs, index, ptr, dim_size)
        return torch_library.aggregate(index, inputs.index, dim_size, _sums(self), inputs.weights, inputs.x)
    return aggregate
