"""What Python says, as options of the command line (docs/cli.md)."""

from __future__ import annotations

import difflib
import operator
import re
import tempfile
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, TypedDict, Union

import numpy as np

from .errors import KhopError, OptionError, ServerError

Fanouts = Union[Sequence[int], Mapping[Any, Sequence[int]]]
Seeds = Any
"""A split's name, "all", "all:TYPE", "@FILE", node ids, a mask, (node type, ids or mask), or a mapping of such."""


def fanouts_text(fanouts: Fanouts) -> str:
    """Fan-outs as --fanouts has them. Keys of a mapping are relations, edge types, or "*" for all others."""
    if isinstance(fanouts, Mapping):
        if not fanouts:
            raise ValueError("fanouts: an empty mapping")
        return ";".join(f"{key if isinstance(key, str) else ':'.join(key)}={_numbers(k)}" for key, k in fanouts.items())
    return _numbers(fanouts)


def _numbers(values: Sequence[int]) -> str:
    try:
        numbers = [] if isinstance(values, (str, bytes)) else [operator.index(k) for k in values]
    except TypeError:
        numbers = []
    if not numbers:
        raise ValueError(f"fanouts={values!r}: must be whole numbers, one a hop, such as [15, 10, 5]")
    return ",".join(map(str, numbers))


HOP_SAMPLERS = frozenset({"neighbor", "temporal", "labor"})
"""Samplers that take frontier. Here its default is "new", where the program's is "all"."""


class SamplerOptions(TypedDict, total=False):
    """Options of samplers beside fanouts: flags of khop serve, which knows what each sampler takes, and the defaults (khop samplers)."""

    frontier: str  # neighbor, temporal, labor: "new", "all"
    replace: bool  # neighbor, temporal, shadow
    disjoint: bool  # neighbor, temporal
    weight: str  # neighbor, temporal, fastgcn, ladies: a column of the edges, as mask and time
    mask: str  # neighbor, temporal
    share: float  # neighbor, temporal
    together: bool  # neighbor, temporal
    direction: str  # neighbor, temporal: "in", "out", "both"
    induced: bool  # neighbor
    time: str  # temporal
    node_time: str  # temporal
    time_rules: Sequence[str]  # temporal: "not-after", "before", "any"
    window: int  # temporal
    recent: bool  # temporal
    half_life: float  # temporal
    chain: bool  # temporal
    as_of: int  # temporal
    length: int  # walk, saint-walk, pinsage, node2vec
    walks: int  # walk, pinsage, node2vec: a seed
    restart: float  # walk, pinsage
    stop: float  # walk, pinsage
    metapath: Sequence[str]  # walk, pinsage
    walk_edges: bool  # walk, node2vec
    budget: int  # saint-node, saint-edge, saint-walk
    steps: int  # the same
    coverage: int  # the same
    partition: str  # cluster: a file
    clusters: int  # cluster
    work: int  # full
    neighbors: int  # pinsage, ppr
    hops: int  # pinsage
    alpha: float  # ppr
    epsilon: float  # ppr
    edge_type: str  # pinsage, ppr
    p: float  # node2vec
    q: float  # node2vec
    poisson: bool  # labor
    layer_dependent: bool  # labor
    batch_dependency: int  # labor
    layer_nodes: Fanouts  # fastgcn, ladies; hgt: also a mapping of node types


class LoaderOptions(SamplerOptions, total=False):
    """Options of seeds that are edges and of columns on disk, beside those of samplers: flags of khop serve (docs/cli.md), which knows the defaults."""

    residence: str  # "mapped", "resident", "disk", "auto"
    cache_bytes: Union[int, str]  # rows that "disk" keeps: 10**9, "1GB"
    lookahead: int  # batches that "disk" samples ahead
    pack: Union[int, str]  # bytes of a temporary file in which "disk" lays out rows of batches ahead
    link_label: str
    link_time: str
    negatives: str  # "none", "uniform", "degree", "weight", "batch"
    negative_ratio: float
    corrupt: str  # "target", "source", "either", "both"
    negative_weight: str
    negative_time: str
    strict: bool
    negative_tries: int
    triplets: bool
    exclude_seeds: str  # "none", "seeds", "reverse"


def check_names(given: Iterable[str], others: Iterable[str]) -> None:
    """Refuses options that no sampler has, and names the nearest one, of others too."""
    for name in given:
        if name not in LoaderOptions.__annotations__:
            near = difflib.get_close_matches(name, [*LoaderOptions.__annotations__, *others], 1)
            raise TypeError(f"khop.Loader has no option {name!r}" + (f": did you mean {near[0]!r}?" if near else "; docs/python.md lists them"))


def in_python(said: str) -> str:
    """What khop says, with the names that options have in Python."""
    return re.sub(r"--([a-z]+(-[a-z]+)*)\b", lambda m: m[1].replace("-", "_"), said)


def failure(
    said: str, usage: bool, spell: Callable[[str], str] = in_python, otherwise: type[KhopError] = ServerError,
) -> KhopError:
    """The error of what khop said when it ended. usage: it does not take what it was called with (exit status 2). Seeds that are a list are an
    option, too, though khop reads them from a file."""
    text = "\n".join(line for line in said.splitlines() if not line.startswith('See "khop'))
    return (OptionError if usage or _LISTS in said else otherwise)(spell(text))


_LISTS = "/proc/self/fd/"
"""What the names of lists of seeds begin with (SeedList)."""


class SeedList:
    """The value of --seeds, and where seeds that are a list are: a file without a name, which the server inherits.

    parts are what the file holds, in order: how Python's user wrote it, and its lines. masks are the lengths of the masks
    that ids were given by, by node type; the type is empty where none is named.
    """

    def __init__(
        self, text: Optional[str], file: Optional[IO[str]] = None, parts: Sequence[tuple[str, int]] = (),
        masks: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.text, self._file, self._parts, self.masks = text, file, parts, masks

    def spell(self, said: str) -> str:
        """What the server says of its options and of the file's lines, in Python's terms."""
        said = re.sub(r"@?/proc/self/fd/\d+: line (\d+)", lambda m: self._where(int(m[1]) - 1), said)
        said = re.sub(r"(edges)?@?/proc/self/fd/\d+", "edge_label_index" if self.text and self.text.startswith("edges@") else "seeds", said)
        return in_python(said)

    def _where(self, line: int) -> str:
        for name, lines in self._parts:
            if line < lines:
                return name.format(line)
            line -= lines
        return f"seeds, number {line}"

    def inherit(self) -> tuple[int, ...]:
        """The file descriptors that the server needs."""
        return () if self._file is None else (self._file.fileno(),)

    def close(self) -> None:
        """The server has its own descriptor, or will not need one."""
        if self._file is not None:
            self._file.close()


def seed_list(seeds: Optional[Seeds], times: Any = None) -> SeedList:
    """Seeds as --seeds has them. times are one for each: an array, or a mapping with the same keys."""
    if seeds is None or isinstance(seeds, str) or isinstance(seeds, tuple) and len(seeds) == 2 and seeds[1] is None:
        if times is not None:
            raise TypeError("input_time: has a time for each of the ids of seeds: give these as an array or a mask")
        return SeedList(seeds if seeds is None or isinstance(seeds, str) else "all:" + seeds[0])
    if isinstance(seeds, tuple) and len(seeds) == 2 and isinstance(seeds[0], str):
        seeds, times = {seeds[0]: seeds[1]}, None if times is None else {seeds[0]: times}
    given = {t: _array(v) for t, v in (seeds if isinstance(seeds, Mapping) else {"": seeds}).items()}
    sets = {t: _ids(array) for t, array in given.items()}
    if not any(ids.size for ids in sets.values()):
        raise ValueError("seeds: there are none")
    whens = {t: None for t in sets} if times is None else _times(times, seeds, sets)
    file = tempfile.TemporaryFile("w", encoding="utf-8")
    for t, ids in sets.items():
        when = whens[t]
        file.writelines(f"{t} {i}\n" for i in ids.tolist()) if when is None else file.writelines(
            f"{t} {i} {x}\n" for i, x in zip(ids.tolist(), when.tolist()))
    file.flush()
    parts = [(f"seeds[{t!r}][{{}}]" if t else "seeds[{}]", len(ids)) for t, ids in sets.items()]
    masks = {t: len(array) for t, array in given.items() if array.dtype == np.bool_}
    return SeedList(f"{'@' if times is None else 'timed@'}/proc/self/fd/{file.fileno()}", file, parts, masks)


def _times(times: Any, seeds: Any, sets: Mapping[str, Any]) -> dict[str, Any]:
    """The times of the seeds, by node type. Those of a mask are one for each of its places, as in PyG, or for each node that it takes."""
    if isinstance(seeds, Mapping) != isinstance(times, Mapping) or isinstance(times, Mapping) and set(times) != set(seeds):
        raise ValueError("input_time: must be an array where seeds are one, or a mapping with the keys of seeds")
    whens = {}
    for t, ids in sets.items():
        of = _array(seeds[t] if isinstance(seeds, Mapping) else seeds)
        when = _array(times[t] if isinstance(times, Mapping) else times)
        if when.ndim == 1 and of.dtype == np.bool_ and len(when) == len(of):
            when = when[of]
        if when.shape != ids.shape or when.dtype.kind not in "iu":
            raise ValueError(f"input_time: {when.dtype} of shape {when.shape}: must be a whole number for each of {len(ids)} seeds")
        whens[t] = when
    return whens


EdgeSeeds = Any
"""Sources and targets [2, n], or (edge type, [2, n]), or a mapping of edge types to such. A type is a relation or a triple."""


def edge_list(edges: EdgeSeeds, labels: Any = None, times: Any = None) -> SeedList:
    """Seeds that are edges, as --seeds has them. labels and times are as edges is: alone, or a mapping with the same keys."""
    if isinstance(edges, tuple) and len(edges) == 2 and (isinstance(edges[0], str) or isinstance(edges[0], tuple) and isinstance(edges[0][0], str)):
        edges, labels, times = {edges[0]: edges[1]}, None if labels is None else {edges[0]: labels}, None if times is None else {edges[0]: times}
    if not isinstance(edges, Mapping):
        edges, labels, times = {"": edges}, None if labels is None else {"": labels}, None if times is None else {"": times}
    for what, values in (("edge_label", labels), ("edge_label_time", times)):
        if values is not None and (not isinstance(values, Mapping) or set(values) != set(edges)):
            have = sorted(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
            raise ValueError(f"{what}: {have}: must be a mapping with the keys of edge_label_index, {sorted(map(str, edges))}")
    if times is not None and labels is None:
        labels = {key: np.ones(_array(pairs).shape[-1], np.int64) for key, pairs in edges.items()}
    file = tempfile.TemporaryFile("w", encoding="utf-8")
    parts = []
    for key, pairs in edges.items():
        columns = [*_pairs(pairs)]
        parts.append((f"edge_label_index[{key!r}][:, {{}}]" if key else "edge_label_index[:, {}]", len(columns[0])))
        for what, values in (("edge_label", labels), ("edge_label_time", times)):
            if values is not None:
                column = _array(values[key])
                if column.shape != columns[0].shape or column.dtype.kind not in "iub":
                    raise ValueError(f"{what}: {column.dtype} of shape {column.shape}: must be a whole number for each of {len(columns[0])} edges")
                columns.append(column.astype(np.int64))
        prefix = (key if isinstance(key, str) else ":".join(key)) + " "
        file.writelines(f"{prefix}{' '.join(map(str, row))}\n" for row in zip(*(c.tolist() for c in columns)))
    file.flush()
    return SeedList(f"edges@/proc/self/fd/{file.fileno()}", file, parts)


def _array(values: Any) -> Any:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def _pairs(values: Any) -> Any:
    array = _array(values)
    if array.ndim != 2 or array.shape[0] != 2 or array.dtype.kind not in "iu":
        raise ValueError(f"edge_label_index: {array.dtype} of shape {array.shape}: must be whole numbers [2, edges], sources and targets")
    return array


def _ids(array: Any) -> Any:
    """Node ids of an array of them, or of a mask."""
    if array.ndim != 1:
        raise ValueError(f"seeds: an array of shape {array.shape}: must have one dimension")
    if array.dtype == np.bool_:
        return np.flatnonzero(array)
    if array.size and array.dtype.kind not in "iu":  # np.array([]) has floats
        raise ValueError(f"seeds: an array of {array.dtype}: must be node ids or a mask")
    return array


def _listed(value: Any) -> str:
    """A value of a flag, or several with commas between them."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


@dataclass
class Flags:
    """Options of khop serve."""

    list: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """Adds an option; None and False stand for its absence, True for a switch."""
        if value is None or value is False:
            return
        if value is True:
            self.list.append(f"--{name.replace('_', '-')}")
            return
        if isinstance(value, Mapping):
            value = ";".join(f"{k if isinstance(k, str) else ':'.join(k)}={_listed(v)}" for k, v in value.items())
        self.list.append(f"--{name.replace('_', '-')}={_listed(value)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.list)
