"""Rows that follow changes of a graph: a khop embed --live, and what it is asked."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import threading
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import changes
from .blocks import Room, Served, flags
from .layers import Layer, layers_of, modules_of, name_of, names_of, types_of
from .. import binary as _binary
from .._data.info import info
from ..errors import BusyError, ForkError, KhopError, OptionError

_AT_ONCE = 16 << 20  # bytes of rows that are exchanged at a time
_AGAIN = "; acknowledged changes are in its journal: open another Live, which has them"


class Live:
    """Rows for every node of a type, in the memory of a process of its own, which follow changes of the graph: after
    each update they are what ``embed`` would make of a dataset with all changes. The dataset itself does not change.

    model is the path of a checkpoint of ``khop train``, or layers as ``embed`` takes them. With a checkpoint rows have
    the same bytes as those of ``khop embed``. torch rounds a row by its place among those that it computes at once, so
    that rows of layers may differ in last bits. Layers are copied when Live opens, and put into evaluation mode: what
    becomes of them later, such as training, changes nothing. Functions of a ``Layer`` that are no modules cannot be
    copied, and must stay as they are.

    node_type says whose rows they are; by default those of the first type. max_memory (bytes; by default half of what
    is free) bounds what khop takes: edges are in memory, and where it has no room for features and the rows of all
    layers, too, these are in files. workers is how many threads khop has. journal is the folder of the changes that
    were acknowledged, DATASET.khop-live by default; one process has it open at a time, and it is of one dataset and
    model. Opening it again, after any end, makes its changes again. name tells layers apart there; by default it is
    made of their parameters.

    One thread after the other is served. A forked process cannot use it (ForkError). ``close`` ends khop; so do the end
    of a with block, of this object, and of this process. When khop is killed meanwhile that is a KhopError, in this
    call and all later ones.
    """

    def __init__(
        self, dataset: _binary.PathLike, model: Any, *, node_type: Optional[str] = None,
        max_memory: Optional[int] = None, journal: Optional[_binary.PathLike] = None, workers: Optional[int] = None,
        name: Optional[str] = None, binary: Optional[_binary.PathLike] = None,
    ) -> None:
        """Computes all rows once, and returns when they follow the journal.

        OptionError for layers or options that khop does not know, KhopError for a dataset or journal that cannot be
        read, for a journal in use or of another model, and where max_memory is too little. Errors of a layer are raised
        as they are.
        """
        about = info(dataset, binary)
        self._graph = changes.Graph(about)
        layers: List[Layer] = []
        if isinstance(model, (str, os.PathLike)):
            if name is not None:
                raise OptionError("name tells layers apart, and a checkpoint by its contents: leave it out")
            of_model = flags(checkpoint=model)
        else:
            layers, modules = layers_of(_frozen(model), lambda: types_of(about))
            of_model = flags(layers=names_of(layers), name=name or name_of(modules))
        self._pid, self._lock, self._asking = os.getpid(), threading.RLock(), False
        self._gone: Optional[str] = None
        """Why nothing can be asked any more."""
        self._torch = bool(layers)
        self._now: Dict[str, Any] = {}
        """What khop has answered last: generation, nodes and width; nothing before it is ready."""
        blocks, self._room = Room(), Room()
        command = [_binary.find(binary), "embed", os.fspath(dataset), "--live", *of_model, *flags(
            changes=self._room.path, type=node_type, max_memory=max_memory, journal=journal, workers=workers)]
        self._served = Served(command, layers, blocks, self._room, alone=True)
        self._end = weakref.finalize(self, _end, self._served, blocks, self._room)  # also when the interpreter ends
        try:
            with self._turn():
                self._now = self._ask(None)
        except BaseException:
            self._end()
            raise

    @property
    def generation(self) -> int:
        """How many updates there were since the journal was begun."""
        return int(self._now["generation"])

    @property
    def nodes(self) -> int:
        """How many nodes have rows: those of the dataset, and those that updates have added."""
        return int(self._now["nodes"])

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return int(self._now["width"])

    def update(
        self, features: Union[None, Tuple[Any, Any], Mapping[str, Tuple[Any, Any]]] = None, add: Any = None,
        remove: Any = None,
    ) -> Dict[str, Any]:
        """Changes the graph, first by remove, then by add, and returns when the journal has the changes on its disk and
        ``rows`` gives the rows that they lead to. All of them are one generation. After an error nothing has changed;
        where khop was killed, or the call interrupted, the journal may have the changes: generation says so when it is
        opened again.

        features is (ids, rows): new features of nodes, [n] and [n, width]. Ids from the number of nodes on are new
        nodes, in any order and without holes; nodes of a type without features have the rows None. add and remove are
        edges, [2, n]: sources, then destinations, as PyG's edge_index. Of several equal edges, remove takes as many as
        it names. Nodes do not go: remove their edges. In a graph of several types features is a dict by node type, and
        edges are one by edge type, ("a", "to", "b") or "a:to:b".

        Arrays are tensors of torch, arrays of NumPy, or lists. Numbers that float32 does not hold exactly are an
        OptionError, but for lists, which are rounded as torch.tensor rounds them. So are wrong shapes, ids and types,
        edges to remove that are not there, and features that are not finite. A layer's rows that are not finite, and a
        disk that fails, are a KhopError. Errors of a layer are raised as they are.

        Returns what it came to: generation, nodes, feature_rows, edges, steps (step and rows that were made again, of
        each), edges_read, seconds, journal_bytes.
        """
        asked = changes.Asked(self._graph)
        request = {"apply": {"features": asked.features(features), "add": asked.edges("add", add),
                             "remove": asked.edges("remove", remove)}}
        with self._turn():
            self._room.resize(asked.bytes)
            for place, array in asked.arrays:
                self._room.put(place, array)
            answer = self._ask(request, "changes")
            self._now = {**self._now, "generation": answer["generation"], "nodes": answer["nodes"]}
            self._room.resize(0)
            return answer

    def rows(self, nodes: Any = None) -> NDArray[np.float32]:
        """Rows of nodes, [n, width] of float32, all of one generation. nodes are ids, in any order, a slice of the
        nodes, or None: all. OptionError for ids without rows."""
        with self._turn():
            ids: Any = range(*nodes.indices(self.nodes)) if isinstance(nodes, slice) else range(
                self.nodes) if nodes is None else changes.ids("nodes", nodes)
            rows = np.empty((len(ids), self.width), np.float32)
            step = max(1, _AT_ONCE // (4 * self.width))
            for first in range(0, len(ids), step):
                part = ids[first:first + step]
                part = np.arange(part.start, part.stop, part.step) if isinstance(part, range) else part
                self._room.resize(part.nbytes + 4 * len(part) * self.width)
                self._room.put(0, part)
                self._ask({"rows": {"count": len(part), "ids_at": 0, "to_at": part.nbytes}}, "rows")
                self._room.get(part.nbytes, rows[first:first + step])
            self._room.resize(0)
            return rows

    def compact(self) -> None:
        """Makes all changes of the journal one, so that it is as large as what differs from the dataset."""
        with self._turn():
            self._ask({"compact": {}})

    def close(self) -> None:
        """Ends khop, when other threads have their answers. The journal stays."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._gone = self._gone or "this Live is closed: open another"
            self._end()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """This thread is the one that asks."""
        if self._pid != os.getpid():
            raise ForkError(f"this Live belongs to process {self._pid}, and this is its child {os.getpid()}: ask "
                            "there, or open another Live with a journal of its own in the child")
        with self._lock:
            if self._asking:
                raise BusyError("a layer of a Live asks this same Live, which waits for the layer: ask before or after")
            if self._gone:
                raise KhopError(self._gone)
            self._asking = True
            try:
                yield
            finally:
                self._asking = False

    def _ask(self, request: Optional[Mapping[str, Any]], invalid: str = "") -> Dict[str, Any]:
        """Returns the answer to a request, or raises what it says; with None the first answer, which nobody asks for.
        invalid is the kind of errors that are of what the caller has given."""
        try:
            with self._no_grad():
                if request is not None:
                    self._served.send(json.dumps(request).encode())
                line = self._served.line()
        except BaseException as error:  # its answer would be taken for that of the next request
            self._gone = f"khop embed was ended when a call was interrupted by {type(error).__name__}{_AGAIN}"
            self._end()
            raise
        if not line:
            raise self._served.error(self._died())
        answer: Dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise self._served.error((OptionError if answer["kind"] == invalid else KhopError)(answer["error"]))
        return answer

    def _no_grad(self) -> Any:
        if not self._torch:
            return contextlib.nullcontext()
        import torch

        return torch.no_grad()

    def _died(self) -> KhopError:
        """Why khop has ended."""
        error = self._served.death()
        if self._now:
            error.args = (str(error) + _AGAIN,)
        self._gone = str(error)
        return error


def _end(served: Served, *rooms: Room) -> None:
    served.close()
    for room in rooms:
        room.close()


def _frozen(model: Any) -> List[Any]:
    """Copies of layers, in evaluation mode."""
    parts = list(model) if hasattr(model, "__iter__") else [model]
    try:
        parts = copy.deepcopy(parts)
    except Exception as error:
        raise OptionError(f"model: its layers cannot be copied ({type(error).__name__}: {error}): give layers that "
                          "copy.deepcopy takes") from error
    for module in modules_of(parts):
        module.eval()
    return parts
