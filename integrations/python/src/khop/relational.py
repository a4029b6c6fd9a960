"""Tables of a database for PyTorch Frame: tensor frames over khop's arrays, and statistics of columns.

    tables = khop.relational.Tables("f1.khop")
    for batch in khop.Loader("f1.khop", seeds="task:driver-top3:train", ...):
        data = tables.to_pyg(batch)      # as RelBench's models take it: tf, time, seed_time, y
"""

from __future__ import annotations

import json
import os
from array import array
from functools import lru_cache
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ._native import library as _library, program
from ._batch.batch import Batch
from .binary import PathLike
from ._batch.convert import to_pyg
from ._batch.frameworks import address
from ._data.database import write
from ._data.info import info
from ._native.scratch import Scratch
from ._data.stage import located
from ._batch.views import EdgeView, Typed

TIME = "time"
_GROUPS = ("numerical", "categorical", "timestamp")
_CONSTANT = "__const__"
_TABLES = "_khop_tables"


class Tables:
    """The tables of a database that ``khop convert --from relbench`` has written.

    col_names and col_stats are the arguments of PyTorch Frame's encoders, by table: names of columns by their kind, and
    the statistics of each column. Categories are numbers: 0 is the most frequent one.

    multicategorical names columns of texts with several categories each, and the separator: ``{"movies": {"genres":
    "|"}}``. Their numbers are kept in memory: 4 bytes each, and 8 per row.
    """

    def __init__(self, dataset: PathLike, multicategorical: Optional[Mapping[str, Mapping[str, str]]] = None) -> None:
        about = info(dataset)
        self.path = located(dataset)
        self._columns: Dict[str, Dict[str, List[Dict[str, Any]]]] = {
            n["name"]: {c["name"]: c["fields"] for c in n["columns"] if c.get("fields")}
            for n in about["node_types"]}
        self._hidden = {table: {*columns} - {TIME} for table, columns in self._columns.items()}
        self._counts = {n["name"]: n["count"] for n in about["node_types"]}
        tasks = {s["name"].split(":")[0] for s in about["splits"] if ":" in s["name"]}
        types = [((e["source"], e["relation"], e["target"]), e["count"]) for e in about["edge_types"]]
        self._edge_types = [t for t, count in types if count or t[1] not in tasks]
        self._several = {table: {column: _Categories(_Texts(dataset, table, column), between)
                                 for column, between in columns.items()}
                         for table, columns in (multicategorical or {}).items()}
        self._names = {table: _names(columns, [*self._several.get(table, ())])
                       for table, columns in self._columns.items()}

    @property
    def col_names(self) -> Dict[str, Dict[Any, List[str]]]:
        """Names of a table's columns by kind: ``{"drivers": {stype.numerical: ["dob", ..], ..}, ..}``."""
        return {table: self._kinds(table) for table in self._columns}

    def _kinds(self, table: str) -> Dict[Any, List[str]]:
        from torch_frame import stype

        return {stype(kind): names for kind, names in self._names[table].items()}

    @property
    def col_stats(self) -> Dict[str, Dict[str, Dict[Any, Any]]]:
        """Statistics of all columns, by table and name."""
        from torch_frame.data.stats import StatType

        stats: Dict[str, Dict[str, Dict[Any, Any]]] = {}
        for table, columns in self._columns.items():
            stats[table] = {f["name"]: _stats(f) for fields in columns.values() for f in fields}
            for column, several in self._several.get(table, {}).items():
                stats[table][column] = {StatType.MULTI_COUNT: (list(range(len(several.counts))), several.counts)}
            if not stats[table]:
                stats[table][_CONSTANT] = _stats({"kind": "numerical", "mean": 1., "std": 0., "quantiles": [1.] * 5})
        return stats

    @property
    def data(self) -> Any:
        """The graph that models inspect before the first batch: a HeteroData with all tables and edge types, the kinds
        of the columns and num_nodes, but no rows. Loaders of khop.pyg accept it in place of the dataset."""
        import torch
        from torch_geometric.data import HeteroData

        data = HeteroData()
        for table, columns in self._columns.items():
            data[table].tf = self._frame(table, np.zeros(0, np.int64),
                                         lambda name, width, dtype: torch.zeros(0, width, dtype=dtype))
            data[table].num_nodes = self._counts[table]
            if TIME in columns:
                data[table].time = torch.zeros(0, dtype=torch.int64)
        for edge_type in self._edge_types:
            data[edge_type].edge_index = torch.zeros(2, 0, dtype=torch.int64)
        data.__dict__[_TABLES] = self  # beside what PyG keeps for batches
        return data

    def at(self, table: str, time: int) -> Dict[str, Any]:
        """Returns options of khop.Loader for all rows of a table as of a time: ``khop.Loader(.., **tables.at("items",
        t))``."""
        rows = np.arange(self._counts[table])
        return {"input_nodes": (table, rows), "input_time": np.full(len(rows), time, np.int64)}

    def check_times(self, name: str, times: Any) -> None:
        """Raises ValueError for times of seeds that are earlier than every row: they have another unit."""
        oldest = [c[TIME][0]["times"][0] for c in self._columns.values() if TIME in c and "times" in c[TIME][0]]
        if oldest and len(times) and int(times.max()) < min(oldest):
            raise ValueError(
                f"{name}: the latest is {int(times.max())}, and no row of the database is before {min(oldest)}: they "
                "are seconds since 1970. RelBench's to_unix_time takes every datetime64 for one of nanoseconds: give "
                'it tables whose times are that, by df[column].astype("datetime64[ns]")')

    def tf(self, batch: Typed, table: str) -> Any:
        """Returns the rows of a table's nodes in a batch, as a torch_frame.TensorFrame.

        Numbers are khop's own memory, valid as long as the batch. Categories and times are copied, since PyTorch Frame
        needs them as int64, and times as year, month, day and so on.
        """
        import torch

        view, columns = batch[table], self._columns[table]

        def rows(name: str, width: int, dtype: Any) -> Any:
            if not columns:
                return torch.ones(view.num_nodes, 1)
            return (view[name][:, None] if name == TIME else view[name]).to(dtype)

        return self._frame(table, view.n_id, rows)

    def _frame(self, table: str, nodes: Any, rows: Callable[[str, int, Any], Any]) -> Any:
        """A tensor frame of some nodes and of columns, each of the given name, width and dtype."""
        import torch
        from torch_frame import TensorFrame, stype
        from torch_frame.data import MultiEmbeddingTensor

        columns, names = self._columns[table], self._kinds(table)
        features: Dict[Any, Any] = {}
        for kind, of_kind in names.items():
            if kind == stype.numerical:
                features[kind] = rows("numerical", len(of_kind), torch.float32)
            elif kind == stype.categorical:
                features[kind] = rows("categorical", len(of_kind), torch.int64)
            elif kind == stype.timestamp:
                times = [rows(TIME, 1, torch.int64)] if TIME in columns else []
                if "timestamp" in columns:
                    times.append(rows("timestamp", len(columns["timestamp"]), torch.int64))
                features[kind] = calendar(*times)
            elif kind == stype.multicategorical:
                features[kind] = _nested(nodes, [*self._several[table].values()])
            else:
                parts = [rows(c, columns[c][0]["width"], torch.float32) for c in _embedded(columns)]
                offsets = torch.tensor([0, *(p.shape[1] for p in parts)]).cumsum(0)
                features[kind] = MultiEmbeddingTensor(len(nodes), len(parts), torch.cat(parts, dim=1), offsets)
        return TensorFrame(features, names)

    def to_pyg(self, batch: Batch, seed_time: Optional[int] = None) -> Any:
        """Returns the batch as PyG's HeteroData, with a tensor frame for each table, as models of RelBench take it.

        seed_time is the common time of seeds that are not rows of a task. For a task that recommends nodes both tables
        have seed_time, so that a model computes the rows of all seeds of either; src_index, dst_pos_index and
        dst_neg_index give the places of a row's source, its destination and its negatives among them.
        """
        data = to_pyg(batch, self._hidden, self._edge_types)
        for table in self._columns:
            data[table].tf = self.tf(batch, table)
        links = batch._linked()
        if links is not None:
            _set_links(data, links)
        elif seed_time is not None:
            _without_trees(data)
            for table in self._columns:
                if batch[table].batch_size:
                    data[table].seed_time = data[table].n_id.new_full((batch[table].batch_size,), seed_time)
        return data

    def add_rows(self, batch: Batch, data: Any) -> None:
        """Adds the rows of a batch to a HeteroData of its nodes: tensor frames, and times."""
        for table, columns in self._columns.items():
            data[table].tf = self.tf(batch, table)
            if TIME in columns:
                data[table].time = batch[table][TIME]
        self._leave_out_tasks(batch, data)

    def _leave_out_tasks(self, batch: Batch, data: Any) -> None:
        """Removes edge types that stand for what is recommended, and have no edges."""
        for edge_type in set(batch.edge_types) - set(self._edge_types):
            del data[edge_type]


def graph(dataset: PathLike, multicategorical: Optional[Mapping[str, Mapping[str, str]]] = None) -> Tuple[Any, Any]:
    """Returns the data of models and loaders, and the statistics of all columns, as RelBench's make_pkey_fkey_graph
    does of a database, but of the dataset that khop made of it. See Tables."""
    tables = Tables(dataset, multicategorical)
    return tables.data, tables.col_stats


def tables_of(data: Any) -> Optional[Tables]:
    """Returns the tables whose ``data`` this is; None for other objects."""
    tables: Optional[Tables] = getattr(data, "__dict__", {}).get(_TABLES)
    return tables


def _set_links(data: Any, links: EdgeView) -> None:
    """Says of a batch whose seeds are edges where their ends are, and as of which time each node is looked at."""
    import torch

    source, _, target = links.type
    seeds, negatives, _ = links.num_links
    data.src_index, data.dst_pos_index = links.src_index.long(), links.dst_pos_index.long()
    if seeds and negatives % seeds == 0:
        data.dst_neg_index = links.dst_neg_index.long()
    if not links.has_times:
        return
    times = links.edge_label_time
    trees = "batch" in data[source]
    if not trees:  # then all nodes are looked at as of one time
        if len(times) and not bool((times == times[0]).all()):
            raise ValueError("the seeds of a batch have several times, and a node does not show which seed it belongs "
                             "to: make the loader with disjoint=True, or with same_time=1")
        _without_trees(data)
    for table in {source, target}:
        rows = data[table].batch_size  # models make so many, as many as there are times of trees, or more
        data[table].seed_time = (torch.cat([times, times.new_zeros(max(0, rows - len(times)))]) if trees
                                 else times[:1].expand(rows))


def _without_trees(data: Any) -> None:
    """Says that all nodes are of the first seed's time, where no tree says of which seed's."""
    import torch

    for table in data.node_types:
        if "batch" not in data[table]:
            data[table].batch = torch.zeros(data[table].num_nodes, dtype=torch.int64)


def embed_text(
    dataset: PathLike, table: str, column: str, embed: Callable[[List[str]], Any], batch_size: int = 1024,
    progress: Optional[Callable[[int, int], None]] = None, force: bool = False,
) -> None:
    """Adds embeddings of a text to a dataset, as the column COLUMN_embedding. Batches then have it, and Tables returns
    it as PyTorch Frame's embeddings.

    embed makes rows of floats, all of one width, of a list of texts, as torch_frame's text embedders do: a tensor or an
    array. A missing text is "". progress is called with the number of rows done, and of all. Rows are kept in a file
    beside the dataset, not in memory, and added at once at the end: an error leaves the dataset as it was. force
    replaces existing ones.
    """
    texts = _Texts(dataset, table, column)
    if not len(texts):
        raise ValueError(f"the table {table!r} has no rows, whose {column!r} could be embedded")
    path = os.path.abspath(os.fsdecode(dataset))
    beside = Scratch(".khop-text-", os.path.dirname(path))
    try:
        made = beside.file("rows.npy")
        _write_rows(made, texts, embed, batch_size, progress)
        done = program.call(["add", path, "--column", f"{table}:{column}_embedding={made}",
                             *(["--force"] if force else [])])
    finally:
        beside.close()
    done.check()


def _write_rows(
    path: str, texts: _Texts, embed: Callable[[List[str]], Any], batch_size: int,
    progress: Optional[Callable[[int, int], None]],
) -> None:
    """Writes the rows that embed makes of texts."""
    rows: Any = None
    for low in range(0, len(texts), batch_size):
        some = texts[low:low + batch_size]
        made = embed(some)
        made = np.asarray(made.detach().cpu() if hasattr(made, "detach") else made)
        if made.ndim != 2 or len(made) != len(some) or rows is not None and made.shape[1] != rows.shape[1]:
            raise ValueError(f"embed made an array of shape {made.shape} of {len(some)} texts: must be one row per "
                             "text, as wide as those before")
        if rows is None:
            open_: Callable[..., Any] = np.lib.format.open_memmap
            rows = open_(path, "w+", np.dtype("<f4"), (len(texts), made.shape[1]))
        rows[low:low + len(some)] = made
        if progress is not None:
            progress(low + len(some), len(texts))
    rows.flush()


class _Categories:
    """Numbers of the categories that stand in the texts of a column, several in each: 0 is the most frequent one."""

    def __init__(self, texts: _Texts, between: str) -> None:
        seen: Dict[str, int] = {}
        numbers, ends = array("i"), array("q", [0])
        for low in range(0, len(texts), 4096):
            for text in texts[low:low + 4096]:
                numbers.extend(seen.setdefault(part.strip(), len(seen)) for part in text.split(between) if part.strip())
                ends.append(len(numbers))
        of = np.frombuffer(numbers, np.int32) if numbers else np.zeros(0, np.int32)
        counts = np.bincount(of, minlength=len(seen))
        order = np.argsort(-counts, kind="stable")
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order))
        self._numbers, self._ends = place[of], np.frombuffer(ends, np.int64)
        self.counts: List[int] = counts[order].tolist()

    def of(self, nodes: Any) -> Tuple[Any, Any]:
        """The numbers of some rows, one row after the other, and how many each has."""
        first, count = self._ends[nodes], self._ends[nodes + 1] - self._ends[nodes]
        return self._numbers[_runs(first, count)], count


def _runs(first: Any, count: Any) -> Any:
    """The numbers first, first + 1, .., as many as count says, for each of several."""
    before = np.cumsum(count) - count
    return np.repeat(first - before, count) + np.arange(int(count.sum()))


def _nested(nodes: Any, columns: List[_Categories]) -> Any:
    """The categories of some nodes, as in PyTorch Frame."""
    import torch
    from torch_frame.data import MultiNestedTensor

    parts = [c.of(np.asarray(nodes)) for c in columns]
    ends = np.concatenate([[0], np.stack([count for _, count in parts], 1).ravel().cumsum()])
    values = np.empty(ends[-1], np.int64)
    for k, (numbers, count) in enumerate(parts):
        values[_runs(ends[k:-1:len(parts)], count)] = numbers
    return MultiNestedTensor(len(nodes), len(parts), torch.from_numpy(values), torch.from_numpy(ends))


class _Texts:
    """The texts of a table's column, in its dataset (docs/format.md, "Strings")."""

    def __init__(self, dataset: PathLike, table: str, column: str) -> None:
        folder = os.fsdecode(dataset)
        with open(os.path.join(folder, "dataset.json"), encoding="utf-8") as f:
            manifest = json.load(f)["content"]
        types = [n["name"] for n in manifest["node_types"]]
        owners = {f"nodes/{t}": name for t, name in enumerate(types)}
        lists = {c["name"]: c["parts"][0] for c in manifest["columns"]
                 if c["dtype"] == "utf8" and owners.get(c["owner"]) == table}
        count = {n["name"]: n["count"] for n in manifest["node_types"]}.get(table)
        texts = [name for name, part in lists.items() if part["rows"] == count]
        if column not in texts:
            raise KeyError(f"the table {table!r} has no texts {column!r}; it has: {', '.join(texts) or 'none'}")
        part = lists[column]
        body = np.memmap(os.path.join(folder, part["path"]), np.uint8, "r", part["body_offset"], (part["bytes"],))
        ends = 8 * (part["rows"] + 1)
        self._offsets, self._characters = body[:ends].view("<i8"), body[-(-ends // 64) * 64:]

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, rows: slice) -> List[str]:
        low, high, _ = rows.indices(len(self))
        at = self._offsets[low:high + 1]
        data = self._characters[at[0]:at[-1]].tobytes()
        return [data[a - at[0]:b - at[0]].decode() for a, b in zip(at.tolist(), at[1:].tolist())]


def _embedded(columns: Dict[str, List[Dict[str, Any]]]) -> List[str]:
    """The columns of embeddings of a table."""
    return [c for c in columns if c not in (*_GROUPS, TIME)]


def _names(columns: Dict[str, List[Dict[str, Any]]], several: List[str]) -> Dict[str, List[str]]:
    """The names of a table's columns by kind, as a manifest has the columns."""
    names = {kind: [f["name"] for f in columns[kind]] for kind in _GROUPS if kind in columns}
    if TIME in columns:
        names["timestamp"] = [columns[TIME][0]["name"], *names.get("timestamp", ())]
    if _embedded(columns):
        names["embedding"] = [columns[c][0]["name"] for c in _embedded(columns)]
    if several:
        names["multicategorical"] = several
    return names or {"numerical": [_CONSTANT]}


def _stats(field: Dict[str, Any]) -> Dict[Any, Any]:
    """A column's statistics, as torch_frame.data.stats has them."""
    import torch
    from torch_frame.data.stats import StatType

    kind, nan = field["kind"], float("nan")
    if kind == "numerical":
        return {StatType.MEAN: field.get("mean", nan), StatType.STD: field.get("std", nan),
                StatType.QUANTILES: field.get("quantiles", [nan] * 5)}
    if kind == "categorical":
        counts = field.get("counts", [])
        return {StatType.COUNT: (list(range(len(counts))), counts)}
    if kind == "timestamp":
        if "times" not in field:
            none = torch.full((7,), -1)
            return {StatType.YEAR_RANGE: [-1, -1], StatType.NEWEST_TIME: none, StatType.OLDEST_TIME: none,
                    StatType.MEDIAN_TIME: none}
        oldest, median, newest = calendar(torch.tensor(field["times"])[:, None])[:, 0]
        return {StatType.YEAR_RANGE: [int(oldest[0]), int(newest[0])], StatType.NEWEST_TIME: newest,
                StatType.OLDEST_TIME: oldest, StatType.MEDIAN_TIME: median}
    return {StatType.EMB_DIM: field["width"]}


def calendar(*columns: Any) -> Any:
    """Returns times in seconds since 1970, UTC, as in PyTorch Frame: [rows, columns, 7], year, month, day, weekday,
    hour, minute and second. Months, days and weekdays count from 0; a missing time is -1 throughout. Columns are in one
    or more tensors [rows, columns]."""
    import torch

    parts, end = np.empty((len(columns[0]), sum(c.shape[1] for c in columns), 7), np.int64), 0
    native = _library.of_arrays("khop_calendar")
    for times in columns:
        # By NumPy: what torch's threads wait for each other took longer than all of it.
        at, begin, end = np.ascontiguousarray(times.numpy()), end, end + times.shape[1]
        if native is None:
            parts[:, begin:end] = _calendar(at)
        elif at.size:
            native(address(at), *at.shape, address(parts) + 56 * begin, 7 * parts.shape[1])
    return torch.from_numpy(parts)


def _calendar(at: Any) -> Any:
    """The same of an array [rows, columns]."""
    days = at // 86400  # // by a number is one of NumPy's fast loops, divmod and % are not
    first, dates = _dates()
    parts = np.empty((*at.shape, 7), np.int64)
    usual = days - first
    if usual.size and 0 <= usual.min() and usual.max() < len(dates):
        parts[..., :4] = dates[usual]
    else:
        parts[..., :4] = _date(days)
    rest = (at - 86400 * days).astype(np.int32)
    minutes, hours = rest // 60, rest // 3600
    parts[..., 4], parts[..., 5], parts[..., 6] = hours, minutes - 60 * hours, rest - 60 * minutes
    parts[at == -2**63] = -1
    return parts


@lru_cache(maxsize=None)
def _dates() -> Tuple[int, Any]:
    """The first day of the years in which times usually are, and the dates of all their days."""
    first, end = -70 * 365, 130 * 366  # 1900 to 2100, about: 2 MB
    return first, _date(np.arange(first, end))


def _date(days: Any) -> Any:
    """Year, month, day and weekday of days since 1970.

    They are counted as in Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
    """
    days = days.astype(np.int32)  # but for missing times they fit
    shifted = days + 719468  # days since 0000-03-01
    era = shifted // 146097
    of_era = shifted - 146097 * era
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153  # from March
    parts = np.empty((*days.shape, 4), np.int64)
    parts[..., 0] = year + 400 * era + (month >= 10)
    parts[..., 1] = np.where(month >= 10, month - 10, month + 2)
    parts[..., 2] = of_year - (153 * month + 2) // 5
    parts[..., 3] = days + 3 - 7 * ((days + 3) // 7)
    return parts
