"""The arrays of a batch: in a slot of the ring (ring.SlotArrays), in memory of their own, or on a device."""

from __future__ import annotations

from typing import Mapping, Protocol

from .frameworks import Array, Framework, NumpyArray


class Arrays(Protocol):
    """The named arrays of a batch (names: docs/digest.md)."""

    def names(self) -> tuple[str, ...]: ...

    def has(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        """Returns the elements, and the name of the dtype. Dtypes that NumPy lacks come as uint16."""

    def release(self) -> None: ...


class OwnArrays:
    """Arrays in memory of their own, in no slot."""

    def __init__(self, arrays: Mapping[str, NumpyArray], dtypes: Mapping[str, str]) -> None:
        self._arrays, self._dtypes = dict(arrays), dict(dtypes)

    def names(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def has(self, name: str) -> bool:
        return name in self._arrays

    def shape(self, name: str) -> tuple[int, ...]:
        return self._arrays[name].shape

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        return self._arrays[name], self._dtypes[name]

    def release(self) -> None:
        """Does nothing: the memory is Python's."""


class Converted:
    """Arrays of a framework as NumPy arrays, for a batch that was moved to a device."""

    def __init__(self, dtypes: Mapping[str, str], values: Mapping[str, Array], framework: Framework) -> None:
        self._dtypes, self._values, self._framework = dtypes, values, framework

    def names(self) -> tuple[str, ...]:
        return tuple(self._dtypes)

    def has(self, name: str) -> bool:
        return name in self._dtypes

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._values[name].shape)

    def numpy(self, name: str) -> tuple[NumpyArray, str]:
        return self._framework.numpy(self._values[name]), self._dtypes[name]

    def release(self) -> None:
        """Does nothing: the memory is the framework's."""
