"""Tables of a database for PyTorch Frame: its tensor frames over khop's arrays, and its statistics of columns.

    tables = khop.relational.Tables("f1.khop")
    for batch in khop.Loader("f1.khop", seeds="task:driver-top3:train", ...):
        data = tables.to_pyg(batch)      # as RelBench's models take it: tf, time, seed_time, y
"""

from __future__ import annotations

from typing import Any, Dict, List

from .binary import PathLike
from .convert import to_pyg
from .info import info
from .views import Typed

TIME = "time"
_GROUPS = ("numerical", "categorical", "timestamp")
_CONSTANT = "__const__"


class Tables:
    """The tables of a database, as ``khop convert --from relbench`` has written it.

    col_names and col_stats are, for each table, what PyTorch Frame's encoders want: names of columns by their kind, and
    the statistics of each column. Categories stand in them as their numbers: 0 is the most frequent one.
    """

    def __init__(self, dataset: PathLike) -> None:
        self._columns: Dict[str, Dict[str, List[Dict[str, Any]]]] = {
            n["name"]: {c["name"]: c["fields"] for c in n["columns"] if c.get("fields")}
            for n in info(dataset)["node_types"]}
        self._names = {table: _names(columns) for table, columns in self._columns.items()}

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
        stats: Dict[str, Dict[str, Dict[Any, Any]]] = {}
        for table, columns in self._columns.items():
            stats[table] = {f["name"]: _stats(f) for fields in columns.values() for f in fields}
            if not columns:
                stats[table][_CONSTANT] = _stats({"kind": "numerical", "mean": 1., "std": 0., "quantiles": [1.] * 5})
        return stats

    def tf(self, batch: Typed, table: str) -> Any:
        """The rows of a table's nodes in a batch, as a torch_frame.TensorFrame.

        Numbers are khop's own memory, valid as long as the batch; categories and times are copied, for PyTorch Frame
        wants them as int64, and times as year, month, day and so on.
        """
        import torch
        from torch_frame import TensorFrame, stype
        from torch_frame.data import MultiEmbeddingTensor

        view, columns, names = batch[table], self._columns[table], self._kinds(table)
        features: Dict[Any, Any] = {}
        for kind in names:
            if kind == stype.numerical:
                features[kind] = view["numerical"] if columns else torch.ones(view.num_nodes, 1)
            elif kind == stype.categorical:
                features[kind] = view["categorical"].long()
            elif kind == stype.timestamp:
                times = [view[TIME][:, None]] if TIME in columns else []
                times += [view["timestamp"]] if "timestamp" in columns else []
                features[kind] = calendar(torch.cat(times, dim=1))
            else:
                rows = [view[name].float() for name in names[kind]]
                offsets = torch.tensor([0, *(r.shape[1] for r in rows)]).cumsum(0)
                features[kind] = MultiEmbeddingTensor(view.num_nodes, len(rows), torch.cat(rows, dim=1), offsets)
        return TensorFrame(features, names)

    def to_pyg(self, batch: Typed) -> Any:
        """The batch as PyG's HeteroData, with a tensor frame for each table: what models of RelBench take."""
        data = to_pyg(batch)
        for table in self._columns:
            for column in self._columns[table]:
                if column != TIME and column in data[table]:
                    del data[table][column]
            data[table].tf = self.tf(batch, table)
        return data


def _names(columns: Dict[str, List[Dict[str, Any]]]) -> Dict[str, List[str]]:
    """The names of a table's columns by kind, as a manifest has the columns."""
    names = {kind: [f["name"] for f in columns[kind]] for kind in _GROUPS if kind in columns}
    if TIME in columns:
        names["timestamp"] = [columns[TIME][0]["name"], *names.get("timestamp", ())]
    embedded = [c for c in columns if c not in (*_GROUPS, TIME)]
    if embedded:
        names["embedding"] = embedded
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
        oldest, median, newest = calendar(torch.tensor(field["times"]))
        return {StatType.YEAR_RANGE: [int(oldest[0]), int(newest[0])], StatType.NEWEST_TIME: newest,
                StatType.OLDEST_TIME: oldest, StatType.MEDIAN_TIME: median}
    return {StatType.EMB_DIM: field["width"]}


def calendar(seconds: Any) -> Any:
    """Times in seconds since 1970, UTC, as PyTorch Frame has them: [.., 7], year, month, day, weekday, hour, minute and
    second, where months, days and weekdays count from 0; -1 throughout for a time that is missing.

    The days are counted as in Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
    """
    import torch

    def div(a: Any, b: int) -> Any:
        return torch.div(a, b, rounding_mode="floor")

    days = div(seconds, 86400)
    rest = seconds - 86400 * days
    shifted = days + 719468  # days since 0000-03-01
    era = div(shifted, 146097)
    of_era = shifted - 146097 * era
    year_of_era = div(of_era - div(of_era, 1460) + div(of_era, 36524) - div(of_era, 146096), 365)
    of_year = of_era - (365 * year_of_era + div(year_of_era, 4) - div(year_of_era, 100))
    month = div(5 * of_year + 2, 153)  # from March
    day = of_year - div(153 * month + 2, 5)
    january = (month >= 10).long()
    parts = torch.stack([year_of_era + 400 * era + january, (month + 2) % 12, day, (days + 3) % 7,
                         div(rest, 3600), div(rest, 60) % 60, rest % 60], dim=-1)
    return torch.where((seconds == torch.iinfo(torch.int64).min)[..., None], torch.full_like(parts, -1), parts)
