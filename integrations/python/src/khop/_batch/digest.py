"""Computes the digest of a batch (docs/digest.md)."""

from __future__ import annotations

from typing import Iterable, Tuple

import numpy as np
from numpy.typing import NDArray

Named = Tuple[str, "NDArray[np.generic]", str]
"""An array's name, its elements, and its dtype's name."""

_IDS = ("num_nodes", "nodes/", "seeds/", "block/", "link/")
_TOPOLOGY = _IDS + ("sample/",)
_COLUMNS = ("node/", "seed/", "edge/")


def digests(arrays: Iterable[Named]) -> Tuple[str, str]:
    """Returns the topology digest and the full digest of a batch's arrays, as 16 hexadecimal digits each."""
    try:
        import xxhash
    except ImportError:
        raise ImportError('digest() needs xxhash: pip install "khop[digest]"') from None
    topology, full = xxhash.xxh3_64(), xxhash.xxh3_64()
    for name, array, dtype in sorted(arrays, key=lambda a: a[0].encode()):
        if not name.startswith(_TOPOLOGY + _COLUMNS) or name.startswith("link/") and name.endswith("/item"):
            continue  # not part of what a digest covers
        if name.startswith(_IDS):
            array, dtype = array.astype(np.int64, copy=False), "int64"
        array = np.ascontiguousarray(array)
        head = _text(name) + _text(dtype) + b"".join(map(_word, (array.ndim, *array.shape)))
        for h in (topology, full) if name.startswith(_TOPOLOGY) else (full,):
            h.update(head)
            h.update(array.reshape(-1).view(np.uint8).data)
    return topology.hexdigest(), full.hexdigest()


def _word(n: int) -> bytes:
    return int(n).to_bytes(8, "little")


def _text(s: str) -> bytes:
    data = s.encode()
    return _word(len(data)) + data
