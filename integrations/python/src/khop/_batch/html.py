"""Draws batches and loaders in notebooks."""

from __future__ import annotations

import math
import re
from html import escape
from typing import Any, Iterable, Mapping, Sequence

from .schema import NODE_NAMES
from .views import Typed

_STEP, _HIGH, _LEAST, _MOST = 130, 110, 8, 34  # between hops, of the drawing, radii


def batch_html(batch: Typed) -> str:
    """Returns HTML that shows a batch: a drawing of its hops, and its arrays."""
    head = f"khop.Batch {batch.number} of epoch {batch.epoch}"
    if batch._source is None:
        return f"<div>{escape(head)}, released</div>"
    rows = [(name, _shape(value)) for name, value in _arrays(batch)]
    return f"<div><b>{escape(head)}</b>{_hops(batch)}{_table(rows)}</div>"


def loader_html(kind: str, state: str, about: Mapping[str, Any], rank: str) -> str:
    """Returns HTML that shows what a loader loads, and its progress."""
    shown = ("dataset", "sampler", "fanouts", "seeds", "batch_size", "shuffle", "seed")
    rows = [(k.replace("_", " "), str(about[k])) for k in shown if k in about]
    rows.append(("rank", rank))
    return f"<div><b>khop.{escape(kind)}</b>: {escape(state)}{_plan(about)}{_table(rows)}</div>"


def _hops(batch: Typed) -> str:
    """The nodes that each hop added, with the edges that led to them."""
    nodes = [sum(hop) for hop in zip(*(batch[t].num_sampled_nodes for t in batch.node_types))]
    edges = [sum(hop) for hop in zip(*(batch[e].num_sampled_edges for e in batch.edge_types))]
    said = [f"{n:,} {'seeds' if not hop else f'nodes, hop {hop}'}" for hop, n in enumerate(nodes)]
    return _chain(nodes, said, [f"{n:,} edges" for n in edges])


def _plan(about: Mapping[str, Any]) -> str:
    """What a batch is going to have at most; nothing where fan-outs are not one number a hop."""
    found = re.search(r" fanouts=(-?\d+(?:,-?\d+)*)(?: |$)", str(about.get("sampler")))
    seeds = about.get("batch_size")
    if found is None or not isinstance(seeds, int):
        return ""
    fanouts, nodes = [int(n) for n in found[1].split(",")], [seeds]
    for n in fanouts:
        nodes.append(nodes[-1] * max(n, 1))
    said = [f"{seeds:,} seeds"] + [f"hop {hop + 1}" for hop in range(len(fanouts))]
    return _chain(nodes, said, [f"{n:,} edges each" if n >= 0 else "all edges" for n in fanouts])


def _chain(nodes: Sequence[int], said: Sequence[str], edges: Sequence[str]) -> str:
    """Seeds on the left, then a circle for the nodes of each hop, larger where there are more, and lines of edges."""
    most = math.log1p(max(nodes, default=0)) or 1.0
    parts, width, y = [], _STEP * len(nodes), _HIGH // 2
    for hop, n in enumerate(nodes):
        x = _STEP * hop + _STEP // 2
        if hop and hop <= len(edges):
            parts.append(f'<line x1="{x - _STEP}" y1="{y}" x2="{x}" y2="{y}" stroke="currentColor" opacity="0.4"/>')
            parts.append(_label(x - _STEP // 2, y - 6, edges[hop - 1]))
        r = round(_LEAST + (_MOST - _LEAST) * math.log1p(n) / most)
        parts.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="{"#4c78a8" if hop else "#e45756"}"/>')
        parts.append(_label(x, _HIGH - 4, said[hop]))
    drawing = "".join(parts)
    return f'<svg width="{width}" height="{_HIGH}" viewBox="0 0 {width} {_HIGH}" style="display:block">{drawing}</svg>'


def _label(x: int, y: int, said: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" font-size="11" fill="currentColor">{escape(said)}</text>'


def _arrays(batch: Typed) -> Iterable[tuple[str, Any]]:
    """What users call most, as they call it; edge_index without making it."""
    plain = batch.schema.plain
    for t in batch.node_types:
        view, of = batch[t], "batch" if plain else f'batch["{t}"]'
        yield f"{of}.n_id", view.n_id
        for column in view.columns():
            name = NODE_NAMES.get(column)
            yield f"{of}.{name}" if name else f'batch["{t}"]["{column}"]', view[column]
    for e in batch.edge_types:
        key = "batch" if plain else f"batch[{', '.join(map(repr, e))}]"
        yield f"{key}.edge_index", f"2 x {batch[e].num_edges:,}"


def _shape(value: Any) -> str:
    if isinstance(value, str):
        return value
    shape = " x ".join(f"{n:,}" for n in value.shape)
    return f"{shape} {str(value.dtype).replace('torch.', '')}"


def _table(rows: Sequence[tuple[str, str]]) -> str:
    left = 'style="text-align:left"'
    cells = "".join(f"<tr><td {left}><code>{escape(k)}</code></td><td {left}>{escape(v)}</td></tr>" for k, v in rows)
    return f"<table>{cells}</table>"
