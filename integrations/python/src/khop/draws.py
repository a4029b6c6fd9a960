"""Chooses which gradients of products use some of the rows, drawn, and which use all of them."""

from __future__ import annotations

import math
import threading
from typing import Optional

import torch
from torch import Tensor

from . import products


class Draws:
    """Draws a share of the edges for gradients that are faster so by this factor, as seconds() predicts. Each draws
    rows of its own, so that the gradient of all layers is right in the mean. Nothing is timed: the choice depends on
    the matrix and the width alone."""

    def __init__(self, share: float, seed: int, gain: float) -> None:
        self.share, self.seed, self.gain = share, seed, gain
        self._lock, self._number = threading.Lock(), 0

    def next(
        self, s: products.Structure, transposed: bool, reduce: int, values: Optional[Tensor], stamp: int, dy: Tensor,
    ) -> tuple[float, int]:
        """Returns share and seed for a gradient; no share if it is exact."""
        heads = 1 if values is None else values.size(1)
        if torch.is_grad_enabled() or reduce == products.SPREAD or heads != 1 or s.edges == 0:
            return 0, 0
        if dy.dtype != torch.float32 or s.on is not None or not self._pays(s, transposed, values, stamp, dy.size(1)):
            return 0, 0
        with self._lock:
            self._number += 1
            return self.share, (self.seed << 32 | self._number) & (1 << 64) - 1

    def _pays(
        self, s: products.Structure, transposed: bool, values: Optional[Tensor], stamp: int, width: int,
    ) -> bool:
        rows, fresh = s.cols if transposed else s.rows, values is not None and stamp == 0
        most = seconds(rows, s.edges, width) / self.gain if self.gain else math.inf
        if seconds(rows, s.edges, width, self.share, fresh) > most:
            return False
        return seconds(rows, s.edges, width, min(self.share + s.heavy(transposed, self.share), 1), fresh) <= most


def seconds(rows: int, edges: int, width: int, kept: Optional[float] = None, fresh: bool = False) -> float:
    """Predicts a gradient of a sum over edges on one thread: exact, or of what is kept of the edges. fresh values have
    other norms than those of the product before. Fitted to power-law graphs: docs/results/ops.md."""
    if kept is None:
        return 1e-9 * (edges * (0.6 + 0.028 * width) + 1.1 * rows * width)
    drawn = rows * (10 * math.log2(max(rows, 2)) + 1.2 * width) + kept * edges * (7.5 + 0.034 * width)
    return 1e-9 * (drawn + 2 * edges * fresh)
