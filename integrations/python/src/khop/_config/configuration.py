"""Options of Python as a configuration of khop: one JSON object, and arrays beside it (docs/json.md, "A
configuration")."""

from __future__ import annotations

import base64
import difflib
import json
import numbers
import operator
import os
import tempfile
import textwrap
from typing import IO, Any, Iterable, Mapping, Optional, Sequence

import numpy as np

from .option_table import OPTIONS, Fanouts, LoaderOptions, SamplerOptions
from .._native import streams
from ..errors import KhopError, OptionError, ServerError

__all__ = [
    "Configuration", "EdgeSeeds", "Fanouts", "LoaderOptions", "OPTIONS", "SamplerOptions", "Seeds", "check_names",
    "check_values", "nameless",
]

Seeds = Any
"""A split's name, "all", "all:TYPE", "@FILE", node ids, a mask, (node type, ids or mask), or a mapping of such."""

EdgeSeeds = Any
"""Sources and targets [2, n], or (edge type, [2, n]), or a mapping of edge types to such. A type is a relation or a
triple."""


def check_names(given: Iterable[str], others: Iterable[str]) -> None:
    """Refuses options that khop.Loader does not have. The error gives the nearest name, also of others."""
    for name in given:
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, [*OPTIONS, *others], 1)
            instead = f": did you mean {near[0]!r}?" if near else "; help(khop.Loader) lists them"
            raise TypeError(f"khop.Loader has no option {name!r}{instead}")


def check_values(given: Mapping[str, Any]) -> None:
    """Refuses texts for numbers, and what is no truth value for one, which khop would read as those of a command."""
    declared = LoaderOptions.__annotations__
    for name, value in given.items():
        of = str(getattr(declared[name], "__forward_arg__", declared[name]))
        if of == "Optional[bool]" and value is not None and (isinstance(value, str) or value not in (0, 1)):
            raise OptionError(f"{name}={value!r}: must be True or False")
        if of in ("Optional[int]", "Optional[float]") and isinstance(value, (str, bytes)):
            raise OptionError(f"{name}={value!r}: must be a number, not a text")


def value_of(name: str, given: Mapping[str, Any]) -> Any:
    """Returns the given value of an option, or its default."""
    value = given.get(name)
    return OPTIONS[name].default if value is None else value


def described() -> str:
    """Returns all options with defaults and meaning, as help() shows them."""
    lines = []
    for name, option in OPTIONS.items():
        default = "" if option.default is None else f" = {option.default!r}"
        takers = f" For {', '.join(option.samplers)}." if option.samplers else ""
        lines += textwrap.wrap(f"{name}{default}: {option.help}{takers}", 116, initial_indent="    ",
                               subsequent_indent="        ", break_on_hyphens=False)
    return "\n".join(lines)


NODE_VALUES = {"input_time": "times", "input_start_time": "from"}
"""Options with a value for each seed that is a node, and what a configuration calls them."""
EDGE_VALUES = {"edge_label": "labels", "edge_label_time": "times", "edge_label_start_time": "from",
               "edge_label_negatives": "negatives"}
"""The same of seeds that are edges."""


class Configuration:
    """Options of a command of khop by their names in Python, and arrays, each an .npy in a file without a name, which
    the program inherits. None is an option's default."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self._files: list[IO[bytes]] = []
        self._names: dict[Optional[str], str] = {}  # what Python calls parts of seeds
        self._keys: dict[str, Any] = {}  # what types are called in Python, by their names in the configuration

    def flags(self, flags: Iterable[str]) -> None:
        """Sets options that are spelled as flags of the command line: --verify, --metrics=ADDRESS."""
        for flag in flags:
            name, value, text = flag.lstrip("-").partition("=")
            self.options[name.replace("-", "_")] = text if value else True

    # --- seeds ---

    def seeds(self, seeds: Seeds, edges: EdgeSeeds, **values: Any) -> None:
        """Sets seeds that are nodes or edges, from khop.Loader's options. values are those of NODE_VALUES and
        EDGE_VALUES, perhaps None."""
        values = {name: value for name, value in values.items() if value is not None}
        nodes = [name for name in values if name in NODE_VALUES]
        if edges is None and len(nodes) < len(values):
            raise TypeError("edge_label, edge_label_time and edge_label_negatives belong to edge_label_index")
        if edges is None:
            self.nodes(seeds, **values)
        elif nodes:
            raise TypeError(f"{nodes[0]}: is of seeds that are nodes; the times of edge_label_index are "
                            f"{nodes[0].replace('input', 'edge_label')}")
        elif seeds is None:
            self.edges(edges, **values)
        else:
            raise TypeError("seeds are nodes or edges: give seeds or edge_label_index")

    def nodes(self, seeds: Seeds, **values: Any) -> None:
        """Sets seeds that are nodes. Each of values has one for each seed: an array, or a mapping with the same
        keys."""
        self._names = {None: "seeds", **{part: name for name, part in NODE_VALUES.items()}}
        _need_times(values, "input")
        if seeds is None or isinstance(seeds, str) or isinstance(seeds, tuple) and len(seeds) == 2 and seeds[1] is None:
            if values:
                raise TypeError(f"{next(iter(values))}: has a time for each of the ids of seeds: give these as an "
                                "array or a mask")
            self.options["seeds"] = "all:" + seeds[0] if isinstance(seeds, tuple) else seeds
            return
        if isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[0], str):
            seeds, values = {seeds[0]: seeds[1]}, {name: {seeds[0]: of} for name, of in values.items()}
        for name, of in values.items():
            keys = set(of) if isinstance(of, Mapping) else None
            if keys != (set(seeds) if isinstance(seeds, Mapping) else None):
                raise ValueError(f"{name}: must be an array where seeds are one, or a mapping with the keys of seeds")
        rows = []
        for key, ids in (seeds if isinstance(seeds, Mapping) else {"": seeds}).items():
            ids = _ids(ids)
            row = {"type": self._key(key), "ids": self._put(ids)}
            for name, of in values.items():
                row[NODE_VALUES[name]] = self._put(_times(name, of[key] if isinstance(of, Mapping) else of, ids))
            rows.append(row)
        self.options["seeds"] = {"nodes": rows}

    def edges(self, edges: EdgeSeeds, **values: Any) -> None:
        """Sets seeds that are edges. values have the form of edges: an array, or a mapping with the same keys."""
        self._names = {None: "edge_label_index", **{part: name for name, part in EDGE_VALUES.items()}}
        _need_times(values, "edge_label")
        if isinstance(edges, tuple) and len(edges) == 2 and _is_type(edges[0]):
            edges, values = {edges[0]: edges[1]}, {k: {edges[0]: v} for k, v in values.items()}
        if not isinstance(edges, Mapping):
            edges, values = {"": edges}, {k: {"": v} for k, v in values.items()}
        for name, of in values.items():
            if not isinstance(of, Mapping) or set(of) != set(edges):
                have = sorted(map(str, of)) if isinstance(of, Mapping) else type(of).__name__
                keys = sorted(map(str, edges))
                raise ValueError(f"{name}: {have}: must be a mapping with the keys of edge_label_index, {keys}")
        rows = []
        for key, pairs in edges.items():
            pairs = _pairs(pairs)
            row = {"type": self._key(key), "edges": self._put(pairs)}
            for name, of in values.items():
                row[EDGE_VALUES[name]] = self._put(_of_edges(name, of[key], pairs.shape[1]))
            rows.append(row)
        self.options["seeds"] = {"edges": rows}

    def _key(self, key: Any) -> Optional[str]:
        text = _text(key)
        self._keys[text] = key
        return text or None

    def _put(self, array: Any) -> dict[str, int]:
        """The array as .npy in a file without a name."""
        file = nameless()
        self._files.append(file)
        np.save(file, array, allow_pickle=False)
        file.flush()
        return {"fd": file.fileno()}

    # --- where it goes ---

    def json(self) -> str:
        return json.dumps({k: _plain(v) for k, v in self.options.items() if v is not None})

    def file(self) -> str:
        """Returns the path of a file with the configuration, for a process that inherits it."""
        file = nameless()
        self._files.append(file)
        file.write(self.json().encode())
        file.flush()
        return f"/proc/self/fd/{file.fileno()}"

    def inherit(self) -> tuple[int, ...]:
        """Returns the file descriptors that the program needs."""
        return tuple(file.fileno() for file in self._files)

    def close(self) -> None:
        """Closes the files. The program then has its own descriptors, or has read them."""
        while self._files:
            self._files.pop().close()

    # --- errors ---

    def failure(self, said: str, otherwise: type[KhopError] = ServerError) -> Optional[KhopError]:
        """Returns the error that khop wrote as one JSON object, with the caller's names of options; None if the text is
        no such object."""
        try:
            problem = json.loads(said)
            text = str(problem["message"])
        except (ValueError, KeyError, TypeError):
            return None
        if problem.get("option") == "seeds" and self._names:
            text = self._seeds(problem) + str(problem.get("text"))
        return (OptionError if problem.get("usage") else otherwise)(text)

    def _seeds(self, problem: Mapping[str, Any]) -> str:
        """What Python calls a part of the seeds: edge_label_index['cites'][:, 3]."""
        name = self._names.get(problem.get("part"), self._names[None])
        if problem.get("key"):
            name += f"[{self._keys.get(problem['key'], problem['key'])!r}]"
        row = problem.get("row")
        if row is None:
            return name
        return name + (f"[:, {row}]" if problem.get("part") == "edges" else f"[{row}]")


def nameless() -> IO[bytes]:
    """Returns a file in memory, or on disk if Python was built for a system without such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("khop"), "w+b")
    return tempfile.TemporaryFile()


def _plain(value: Any) -> Any:
    """A value for json. Bytes that are not text are base64."""
    if isinstance(value, Mapping):
        return {_text(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (bytes, os.PathLike)) or isinstance(value, str) and not _is_utf8(value):
        name = os.fsencode(value)
        try:
            return name.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(name).decode()}
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, np.datetime64):
        return str(value)
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, Iterable):
        return [_plain(v) for v in value]
    return str(value)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(key: Any) -> str:
    """A type's name: an edge type may be a triple."""
    return key if isinstance(key, str) else ":".join(key)


def _is_type(key: Any) -> bool:
    return isinstance(key, str) or isinstance(key, tuple) and isinstance(key[0], str)


def fanouts_of(fanouts: Fanouts) -> Any:
    """Returns fan-outs as in a configuration. Keys of a mapping are relations, edge types, or "*" for all others."""
    if not isinstance(fanouts, Mapping):
        return _whole(fanouts)
    if not fanouts:
        raise ValueError("fanouts: an empty mapping")
    return {key: _whole(k) for key, k in fanouts.items()}


def _whole(values: Sequence[int]) -> list[int]:
    try:
        whole = [] if isinstance(values, (str, bytes)) else [operator.index(k) for k in values]
    except TypeError:
        whole = []
    if not whole:
        raise ValueError(f"fanouts={values!r}: must be whole numbers, one a hop, such as [15, 10, 5]")
    return whole


def _array(values: Any) -> Any:
    if streams.is_stream(values) and not hasattr(values, "__array__"):
        values = streams.numbers(values)
        if values is None:
            raise ValueError("an Arrow column that does not hold numbers")
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _ids(values: Any) -> Any:
    """Node ids, or a mask."""
    array = _array(values)
    if array.ndim != 1:
        raise ValueError(f"seeds: an array of shape {array.shape}: must have one dimension")
    if not array.size:  # np.array([]) has floats
        return np.empty(0, np.int64)
    if array.dtype.kind not in "iub":
        raise ValueError(f"seeds: an array of {array.dtype}: must be node ids or a mask")
    return array


def numbers_of(name: str, values: Any) -> Any:
    """Returns whole numbers of one dimension, as contiguous int64."""
    array = _array(values)
    if array.ndim != 1 or array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}: must be whole numbers in one dimension")
    return np.ascontiguousarray(array, np.int64)


def _need_times(values: Mapping[str, Any], of: str) -> None:
    """Refuses windows without an end."""
    if f"{of}_start_time" in values and f"{of}_time" not in values:
        raise TypeError(f"{of}_start_time: windows begin there and end at {of}_time: give this as well")


def _times(name: str, values: Any, ids: Any) -> Any:
    """The times of seeds. Those of a mask are one for each of its places, as in PyG, or for each node that it takes."""
    array = _array(values)
    seeds = int(np.count_nonzero(ids)) if ids.dtype == np.bool_ else len(ids)
    if array.ndim != 1 or len(array) not in (len(ids), seeds) or array.dtype.kind not in "iu":
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}: must be a whole number for each of "
                         f"{seeds} seeds")
    return array


def _pairs(values: Any) -> Any:
    array = _array(values)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"edge_label_index: {array.dtype} of shape {array.shape}: must be whole numbers [2, edges], "
                         "sources and targets")
    return array


def _of_edges(name: str, values: Any, edges: int) -> Any:
    """Labels, times or negatives of edges."""
    array = _array(values)
    if name == "edge_label_negatives":
        if array.ndim != 2 or array.shape[0] != edges or array.shape[1] == 0 or array.dtype.kind not in "iu":
            raise ValueError(f"{name}: {array.dtype} of shape {array.shape}: must be whole numbers [{edges}, k], other "
                             "targets of each edge, or -1 behind the last of a shorter list")
        return array
    if array.shape != (edges,) or array.dtype.kind not in "iub":
        raise ValueError(f"{name}: {array.dtype} of shape {array.shape}: must be a whole number for each of "
                         f"{edges} edges")
    return array
