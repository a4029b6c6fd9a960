"""The base of khop.graphbolt: edge types as text, edges by destination, random numbers, small operations."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

import torch

CANONICAL_ETYPE_DELIMITER = ":"
ORIGINAL_EDGE_ID = "_ORIGINAL_EDGE_ID"
"""The attribute of edges that has the numbers that they had before they were ordered by destination."""

_random: dict[str, torch.Generator] = {}  # by device, of seed()
_seed: Optional[int] = None


class Refused(ValueError, AssertionError):
    """An invalid argument. GraphBolt raises AssertionError where khop raises ValueError: this is both."""


def require(condition: Any, why: str) -> None:
    """Raises Refused unless the condition holds."""
    if not condition:
        raise Refused(why)


def seed(val: int) -> None:
    """dgl.graphbolt.seed: keys all later draws. Without it torch's random numbers decide."""
    global _seed
    _seed = int(val)
    _random.clear()


def generator(device: Any = "cpu") -> Optional[torch.Generator]:
    """Returns the random numbers of seed() on a device, or None for torch's own."""
    if _seed is None:
        return None
    name = str(device)
    if name not in _random:
        _random[name] = torch.Generator(device).manual_seed(_seed)
    return _random[name]


def etype_str_to_tuple(c_etype: Any) -> tuple[str, str, str]:
    """("user", "likes", "item") of "user:likes:item"."""
    parts = c_etype if isinstance(c_etype, tuple) else tuple(c_etype.split(CANONICAL_ETYPE_DELIMITER))
    require(len(parts) == 3, "Passed-in canonical etype should be in format of 'str:str:str'. "
            f"But got {c_etype}.")
    return parts


def etype_tuple_to_str(c_etype: Any) -> str:
    """ "user:likes:item" of ("user", "likes", "item")."""
    require(isinstance(c_etype, tuple) and len(c_etype) == 3,
            f"Passed-in canonical etype should be in format of (str, str, str). But got {c_etype}.")
    return CANONICAL_ETYPE_DELIMITER.join(c_etype)


def isin(elements: Any, test_elements: Any) -> Any:
    """Returns which elements are among test_elements."""
    require(elements.dim() == 1 and test_elements.dim() == 1, "isin: both must have one dimension")
    return torch.isin(elements, test_elements)


def index_select(tensor: Any, index: Any) -> Any:
    """Returns rows of a tensor. An index out of range is an IndexError."""
    require(index.dim() == 1, "index_select: the index must have one dimension")
    return tensor[index.long()]


def expand_indptr(indptr: Any, dtype: Any = None, node_ids: Any = None, output_size: Optional[int] = None) -> Any:
    """Returns the column of each edge: its number, or its id in node_ids."""
    require(indptr.dim() == 1 and (node_ids is None or node_ids.dim() == 1), "expand_indptr: indptr and node_ids must "
            "have one dimension")
    require(node_ids is not None or dtype is not None, "One of node_ids or dtype must be given.")
    if node_ids is None:
        node_ids = torch.arange(len(indptr) - 1, device=indptr.device)
    return node_ids.to(dtype or node_ids.dtype).repeat_interleave(indptr.diff().long(), output_size=output_size)


def applied(value: Any, fn: Callable[[Any], Any]) -> Any:
    """Returns a value with fn applied to each tensor, and to each other movable object, within containers."""
    if isinstance(value, Mapping):
        return {k: applied(v, fn) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(applied(v, fn) for v in value)
    if isinstance(value, list):
        return [applied(v, fn) for v in value]
    return fn(value)


def moved(value: Any, device: Any) -> Any:
    """Returns a value with every object that has to() moved to a device, or to pinned memory ("pinned")."""
    def move(v: Any) -> Any:
        if isinstance(device, str) and device == "pinned":
            return v.pin_memory() if isinstance(v, torch.Tensor) else v
        return v.to(device) if hasattr(v, "to") else v
    return applied(value, move)


class CSCFormatBase:
    """Edges by destination: those of column i are indices[indptr[i]:indptr[i + 1]]."""

    def __init__(self, indptr: Any, indices: Any) -> None:
        self.indptr, self.indices = indptr, indices
        if indptr is not None and indices is not None and not indptr.is_cuda:
            require(indptr[-1] == len(indices),
                    "The last element of indptr should be the same as the length of indices.")

    def to(self, device: Any) -> CSCFormatBase:
        """Moves both to a device."""
        self.indptr, self.indices = moved(self.indptr, device), moved(self.indices, device)
        return self

    def __repr__(self) -> str:
        return called("CSCFormatBase", {"indptr": self.indptr, "indices": self.indices}, 14)


def called(name: str, fields: Mapping[str, Any], room: int, end: str = ",\n)") -> str:
    """Formats fields one below the other, indented by room characters, as GraphBolt shows its objects."""
    def text(field: str, value: Any) -> str:
        for kind, begins, ends in ((list, "[", "]"), (tuple, "(", ")")):
            if isinstance(value, kind):
                value = begins + ",\n".join(map(str, value)) + ends
        return f"{field}=" + str(value).replace("\n", "\n" + " " * (room + len(field) + 1))
    return f"{name}(" + (",\n" + " " * room).join(text(k, v) for k, v in fields.items()) + end
