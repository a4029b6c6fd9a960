"""The fast path for a finished batch that was made in this process: one function from its message to the Batch.

The time that Python takes for such a batch is that of its calls, so this path calls only C functions. It leaves every
other case to Feed.next, which reads the message again.
"""

from __future__ import annotations

import platform
from typing import Any, Callable, Optional, Protocol

import numpy as np

from .._batch.batch import Batch, copying
from .feed import Feed
from .._batch.frameworks import Framework
from .in_process import BATCH_BYTES, BATCH_FRAME, POST, Inside
from .protocol import BATCH_FORM
from .ring import SlotArrays
from .._batch.schema import Schema

_IN_ORDER = platform.machine() == "x86_64"  # one processor's stores are seen by others in order
_new: Callable[[Any], Any] = object.__new__
_read = BATCH_FORM.unpack_from


class Taker(Protocol):
    """The state of a loader's run."""

    _feed: Feed
    _framework: Framework
    _index_dtype: np.dtype[Any]
    _schema: Optional[Schema]
    _place: tuple[int, int]


def quick(loader: Taker) -> Optional[Callable[[], Optional[Batch]]]:
    """Returns a function that takes the next batch of the loader's run, or returns None if the case is not that simple.
    Returns None if batches are not made in this process."""
    feed, ring = loader._feed, loader._feed.ring
    inside = feed._inside
    if inside is None or not _IN_ORDER:
        return None
    run, lazy, written, frames, data = feed._run, feed.lazy, inside.written, inside.frames, inside.data
    held, returned, framework, index = ring.held, ring.returned, loader._framework, loader._index_dtype

    def take() -> Optional[Batch]:
        schema, layout, place = loader._schema, ring.layout, inside.place
        if written[0] == place or schema is None or layout is None:
            return None
        if len(returned) >= lazy or copying or feed._socket is None:
            return None
        at = place % POST
        if frames[at >> 3] != BATCH_FRAME:
            return None
        told = _read(data, at + 8)  # run, slot, sequence, epoch and next are 1, 2, 3, 4 and 9
        if told[1] != run or told[3] != ring.sequence:
            return None
        batch: Batch = _new(Batch)
        arrays: SlotArrays = _new(SlotArrays)
        batch.schema, batch._info, batch._source = schema, told, arrays
        batch._framework, batch._index, batch._values, batch._table = framework, index, {}, None
        arrays.ring, arrays.told, arrays._layout, arrays._descriptor, arrays._base = ring, told, layout, None, None
        # As in SlotArrays.begin: who is interrupted before this line has taken nothing, and behind it gives the slot
        # back.
        held[told[2]], ring.sequence, arrays._open = told, told[3] + 1, True
        inside.place = place + BATCH_BYTES
        loader._place = told[4], told[9]
        return batch
    return take
