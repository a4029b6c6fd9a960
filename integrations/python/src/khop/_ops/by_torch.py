"""Products of sparse and dense matrices by operations of torch alone, for gradients that the library cannot read: those
under vmap, and of forward mode."""

from __future__ import annotations

from typing import Any, Optional

from torch import Tensor


def multiply(s: Any, transposed: bool, mean: bool, spread: bool, values: Optional[Tensor], x: Tensor) -> Tensor:
    """What products.Structure.multiply returns."""
    to, of, order = s.ends()
    if transposed:
        to, of = of, to
    rows = (x.float() * s.inverse(not transposed) if spread else x.float()).index_select(0, of)
    if values is not None:
        weights = values.float() if order is None else values.float().index_select(0, order)
        heads = weights.size(1)
        rows = (rows.view(s.edges, heads, rows.size(1) // heads) * weights.unsqueeze(2)).view(rows.shape)
    y: Tensor = rows.new_zeros(s.cols if transposed else s.rows, rows.size(1)).index_add(0, to, rows)
    return y * s.inverse(transposed) if mean else y


def sample(s: Any, heads: int, u: Tensor, v: Tensor) -> Tensor:
    """What products.Structure.sample returns."""
    to, of, order = s.ends()
    parts = u.index_select(0, to) * v.index_select(0, of)
    sums: Tensor = parts.view(s.edges, heads, parts.size(1) // heads).sum(2)
    return sums if order is None else sums.index_select(0, order.argsort())


def winners(s: Any, transposed: bool, values: Optional[Tensor], y: Tensor, x: Tensor, u: Tensor) -> Tensor:
    """What products.Structure.winners returns."""
    to, of, order = s.ends()
    rows = x.index_select(0, of)
    weights = None if values is None else (values if order is None else values.index_select(0, order)).unsqueeze(1)
    won = ((rows if weights is None else rows * weights) == y.index_select(0, to)).to(x.dtype)
    won = won if weights is None else won * weights
    if transposed:
        to, of = of, to
    parts = u.index_select(0, of) * won
    sums: Tensor = parts.new_zeros(s.cols if transposed else s.rows, parts.size(1)).index_add(0, to, parts)
    return sums
