"""Chooses which gradients of products use some of the rows, drawn, and which use all of them; and how many rows each
layer's use."""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from . import spmm
from .recent import Recent

_torch: Any = torch  # what its types do not tell
EVERY = 40
"""Backward passes until the layers' shares are allotted anew."""


class _Product(NamedTuple):
    """A product whose gradient may leave rows out."""

    s: spmm.Structure
    transposed: bool
    width: int
    fresh: bool  # its values have other norms than those of the product before

    def exact(self) -> float:
        """Predicts the seconds of the exact gradient."""
        return seconds(self.s.cols if self.transposed else self.s.rows, self.s.edges, self.width)

    def drawn(self, share: float, gain: float) -> Optional[float]:
        """Predicts the seconds of a gradient of a share of the rows; None if it is not faster by this factor."""
        rows, most = self.s.cols if self.transposed else self.s.rows, self.exact() / gain if gain else math.inf
        if seconds(rows, self.s.edges, self.width, share, self.fresh) > most:
            return None
        kept = min(share + self.s.heavy(self.transposed, share), 1)
        took = seconds(rows, self.s.edges, self.width, kept, self.fresh)
        return took if took <= most else None


class _Site(NamedTuple):
    """A product of a backward pass that weighs the rows."""

    key: Any
    weights: Tensor  # of its rows: they are kept in proportion to these
    costs: Tensor  # edges times columns of each row
    product: Optional[_Product] = None


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
        self.sites: list[_Site] = []  # if it weighs
        self.begun, self.ended = 0, False

    def share(self, key: Any, usual: float) -> float:
        """The share of the next site."""
        at, self.begun = self.begun, self.begun + 1
        return self.shares[at][1] if at < len(self.shares) and self.shares[at][0] == key else usual


class Draws:
    """Draws rows for gradients that are faster so by this factor, as seconds() predicts. Each draws rows of its own, so
    that the gradient of all layers is right in the mean. Nothing is timed: the choice depends on the matrix and the
    width alone.

    The first pass draws the same share in all layers. From the third pass on, and anew after every fortieth, each layer
    has the share that makes the error of all gradients least for the same work: allot() says how. Shares with which
    all layers together would not be faster by the factor are left: one layer's may be so great that it is exact.
    """

    def __init__(self, share: float, seed: int, gain: float) -> None:
        self.share, self.seed, self.gain = share, seed, gain
        self._lock, self._number = threading.Lock(), 0
        self._running = threading.local()
        self._models: Recent[_Model] = Recent(16)

    def takes(
        self, s: spmm.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor,
    ) -> bool:
        """Whether a gradient is one of drawn rows where all layers have the same share."""
        heads = 1 if values is None else values.size(1)
        if torch.is_grad_enabled() or reduce == spmm.SPREAD or heads != 1 or s.edges == 0:
            return False
        product = _Product(s, transposed, dy.size(1), values is not None and stamp == 0)
        return dy.dtype == torch.float32 and s.on is None and product.drawn(self.share, self.gain) is not None

    def gradient(
        self, s: spmm.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor,
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
        product = _Product(s, transposed, dy.size(1), values is not None and stamp == 0)
        if product.drawn(share, self.gain) is None:
            share, seed = 0, 0
        weights = None if values is None else values.float().contiguous()
        dx = s.multiply(not transposed, spmm.TRANSPOSED[reduce], weights, 1, dy.contiguous(), stamp, share, seed)
        if now.weighs:
            now.sites.append(_Site(key, _weights(s, transposed, reduce, weights, stamp, dy, dx),
                                   s.degrees(transposed) * dy.size(1), product))
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
        if len(now.sites) > 1 and not now.ended:
            shares = allot(self.share, now.sites)
            now.model.shares = shares if self._gains(now.sites, shares) else []
        now.ended = True

    def _gains(self, sites: list[_Site], shares: list[tuple[Any, float]]) -> bool:
        """Whether the gradients of all sites with these shares are faster by the factor."""
        products = [site.product for site in sites if site.product is not None]
        drawn = [p.drawn(share, self.gain) for p, (_, share) in zip(products, shares)]
        exact = [p.exact() for p in products]
        return self.gain * sum(e if d is None else d for e, d in zip(exact, drawn)) <= sum(exact)


def seconds(rows: int, edges: int, width: int, kept: Optional[float] = None, fresh: bool = False) -> float:
    """Predicts a gradient of a sum over edges on one thread: exact, or of what is kept of the edges. fresh values have
    other norms than those of the product before. Fitted to power-law graphs: docs/results/ops.md."""
    if kept is None:
        return 1e-9 * (edges * (0.6 + 0.028 * width) + 1.1 * rows * width)
    drawn = rows * (10 * math.log2(max(rows, 2)) + 1.2 * width) + kept * edges * (7.5 + 0.034 * width)
    return 1e-9 * (drawn + 2 * edges * fresh)


def _weights(
    s: spmm.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor, dx: Tensor,
) -> Tensor:
    """Weighs each row by the norm of what it adds to the gradient, by the root of its edges and by the gradient's
    norm."""
    degrees = s.degrees(transposed).double()
    squares = degrees if values is None else s.squares(transposed, values, stamp)
    weights = (squares / degrees.clamp(min=1)).sqrt() * _torch.linalg.vector_norm(dy, dim=1)
    if reduce == spmm.MEAN:
        weights /= degrees.clamp(min=1)
    weights /= max(float(_torch.linalg.vector_norm(dx)), 1e-300) * dy.size(1) ** 0.5
    return torch.where(weights.isnan(), torch.full_like(weights, math.inf), weights)


def allot(share: float, sites: list[_Site]) -> list[tuple[Any, float]]:
    """Returns the share of its own work that each site does, by its key, if all together do this share of theirs: so
    that the sum of the variances, each relative to its gradient, is least. An error of a layer counts once for each
    gradient that it reaches. Rows that cost more than a quarter of all work are kept beyond it.

    Source: internal/rowsample, which keeps rows with these chances.
    """
    weights = torch.cat([s.weights * (len(sites) - n) ** 0.5 for n, s in enumerate(sites)])
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
