"""Chooses which gradients of products use some of the rows, drawn, and which use all of them; and how many rows each
layer's use."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from . import products
from .recent import Recent

_torch: Any = torch  # what its types do not tell
EVERY = 10
"""Backward passes until the layers' shares are allotted anew."""


class _Site(NamedTuple):
    """A product of a backward pass whose gradient may leave rows out."""

    key: Any
    weights: Optional[Tensor]  # of its rows, if this pass weighs them: they are kept in proportion to these
    costs: Tensor  # edges times columns of each row


class _Model:
    """What is known of backward passes that begin with the same product."""

    def __init__(self) -> None:
        self.passes = 0
        self.shares: list[tuple[Any, float]] = []  # of each site, by its key


class _Pass:
    """A backward pass, and its sites, the last layer's first."""

    def __init__(self, model: _Model) -> None:
        model.passes += 1
        self.model, self.shares, self.weighs = model, model.shares, model.passes % EVERY == 2
        self.sites: list[_Site] = []
        self.ended = False

    def share(self, key: Any, usual: float) -> float:
        """The share of the next site."""
        at = len(self.sites)
        return self.shares[at][1] if at < len(self.shares) and self.shares[at][0] == key else usual


class Draws:
    """Draws rows for gradients that are faster so by this factor, as seconds() predicts. Each draws rows of its own, so
    that the gradient of all layers is right in the mean. Nothing is timed: the choice depends on the matrix and the
    width alone.

    The first pass draws the same share in all layers. From every tenth pass on, beginning with the second, each layer
    has the share that makes the error of all gradients least for the same work: allot() says how.
    """

    def __init__(self, share: float, seed: int, gain: float) -> None:
        self.share, self.seed, self.gain = share, seed, gain
        self._lock, self._number = threading.Lock(), 0
        self._running = threading.local()
        self._models: Recent[_Model] = Recent(16)

    def takes(
        self, s: products.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor,
    ) -> bool:
        """Whether a gradient is one of drawn rows where all layers have the same share."""
        heads = 1 if values is None else values.size(1)
        if torch.is_grad_enabled() or reduce == products.SPREAD or heads != 1 or s.edges == 0:
            return False
        return dy.dtype == torch.float32 and s.on is None and self._pays(
            s, transposed, values, stamp, dy.size(1), self.share)

    def gradient(
        self, s: products.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor,
    ) -> Optional[Tensor]:
        """Returns the gradient of a product of what is drawn; None if it is not one of those."""
        if not self.takes(s, transposed, reduce, values, stamp, dy):
            return None
        key = s.number, transposed, reduce, dy.size(1), values is None
        with self._lock:
            self._number += 1
            seed = (self.seed << 32 | self._number) & (1 << 64) - 1
        now = self._pass(key)
        share = now.share(key, self.share)
        if not self._pays(s, transposed, values, stamp, dy.size(1), share):
            share, seed = 0, 0
        weights = None if values is None else values.float().contiguous()
        dx = s.multiply(not transposed, products.TRANSPOSED[reduce], weights, 1, dy.contiguous(), stamp, share, seed)
        now.sites.append(_Site(key, _weights(s, transposed, reduce, weights, dy, dx) if now.weighs else None,
                               s.degrees(transposed) * dy.size(1)))
        return dx

    def _pass(self, key: Any) -> _Pass:
        """The backward pass that runs in this thread. Torch tells when it ends."""
        now: Optional[_Pass] = getattr(self._running, "now", None)
        if now is None or now.ended:
            with self._lock:
                model = self._models.get(key, _Model())
                self._models.put(key, model)
            now = self._running.now = _Pass(model)
        running = now
        try:  # each time: a pass before may have ended by an error
            _torch.autograd.Variable._execution_engine.queue_callback(lambda: self._end(running))
        except RuntimeError:  # there is no backward pass: somebody asks for this gradient alone
            now.ended = True
        return now

    def _end(self, now: _Pass) -> None:
        """Allots shares anew, if this pass has weighed the rows."""
        if now.weighs and not now.ended and len(now.sites) > 1:
            now.model.shares = allot(self.share, now.sites)
        now.ended = True

    def _pays(
        self, s: products.Structure, transposed: bool, values: Optional[Tensor], stamp: int, width: int, share: float,
    ) -> bool:
        rows, fresh = s.cols if transposed else s.rows, values is not None and stamp == 0
        most = seconds(rows, s.edges, width) / self.gain if self.gain else math.inf
        if seconds(rows, s.edges, width, share, fresh) > most:
            return False
        return seconds(rows, s.edges, width, min(share + s.heavy(transposed, share), 1), fresh) <= most


def seconds(rows: int, edges: int, width: int, kept: Optional[float] = None, fresh: bool = False) -> float:
    """Predicts a gradient of a sum over edges on one thread: exact, or of what is kept of the edges. fresh values have
    other norms than those of the product before. Fitted to power-law graphs: docs/results/ops.md."""
    if kept is None:
        return 1e-9 * (edges * (0.6 + 0.028 * width) + 1.1 * rows * width)
    drawn = rows * (10 * math.log2(max(rows, 2)) + 1.2 * width) + kept * edges * (7.5 + 0.034 * width)
    return 1e-9 * (drawn + 2 * edges * fresh)


def _weights(
    s: products.Structure, transposed: bool, reduce: int, values: Optional[Tensor], dy: Tensor, dx: Tensor,
) -> Tensor:
    """Weighs each row by the norm of what it adds to the gradient, by the root of its edges and by the gradient's
    norm."""
    degrees = s.degrees(transposed).double()
    squares = degrees
    if values is not None:  # once in ten passes
        rows, columns, order = s.ends()
        each = values.view(-1).double().square()
        squares = torch.zeros_like(degrees).index_add_(
            0, columns if transposed else rows, each if order is None else each[order])
    weights = (squares / degrees.clamp(min=1)).sqrt() * _torch.linalg.vector_norm(dy, dim=1)
    if reduce == products.MEAN:
        weights /= degrees.clamp(min=1)
    weights /= max(float(_torch.linalg.vector_norm(dx)), 1e-300) * dy.size(1) ** 0.5
    return torch.where(weights.isnan(), torch.full_like(weights, math.inf), weights)


def allot(share: float, sites: list[_Site]) -> list[tuple[Any, float]]:
    """Returns the share of its own work that each site does, by its key, if all together do this share of theirs: so
    that the sum of the variances, each relative to its gradient, is least. An error of a layer counts once for each
    gradient that it reaches. Rows that cost more than a quarter of all work are kept beyond it.

    Source: internal/rowsample, which keeps rows with these chances.
    """
    weights = torch.cat([s.weights * (len(sites) - n) ** 0.5 for n, s in enumerate(sites) if s.weights is not None])
    costs = torch.cat([s.costs for s in sites]).double()
    most = share * float(costs.sum())
    drawn = (weights > 0) & (costs <= most / 4)
    kept = torch.zeros_like(costs)
    kept[drawn] = costs[drawn] * _chances(weights[drawn], costs[drawn], most)
    shares = []
    for site, part in zip(sites, _torch.split(kept, [s.costs.numel() for s in sites])):
        own = min(max(float(part.sum()) / max(float(site.costs.sum()), 1), share / 10), 1)
        shares.append((site.key, float(f"{own:.2g}")))  # few different ones: something is kept for each
    return shares


def _chances(weights: Tensor, costs: Tensor, most: float) -> Tensor:
    """Returns the chances min(1, weight / t) for which rows cost so much in the mean."""
    if float(costs.sum()) <= most:
        return torch.ones_like(weights)
    order = weights.argsort(descending=True)
    w, c = weights[order], costs[order]
    before = c.cumsum(0) - c  # of those that are kept surely
    finite = torch.where(w.isinf(), torch.zeros_like(w), w)
    after = (c * finite).flip(0).cumsum(0).flip(0)
    t = after / (most - before).clamp(min=1e-300)
    at = int(((finite <= t) & ~w.isinf()).to(torch.int8).argmax())
    chances: Tensor = (weights / t[at]).clamp(max=1)
    return chances
