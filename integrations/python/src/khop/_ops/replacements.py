"""Functions in the place of others, until these are put back."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable

import torch

_torch: Any = torch  # what its types do not tell


class Replacements:
    """Functions that stand in others' places. A wrapper that somebody puts around one of them stays when they go, and
    calls what was there before."""

    def __init__(self) -> None:
        self.active = True
        self.peers: set[str] = set()
        self._put: dict[tuple[int, str], Any] = {}
        self._everywhere: dict[int, tuple[Any, Any]] = {}
        """By the id of what was there: that, and its stand-in."""
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, new: Callable[..., Any], compiled: bool = False) -> None:
        """Puts a function in the place of an attribute of a module or a class, once. With compiled, torch.compile takes
        the new one."""
        if (id(owner), name) in self._put:
            return
        old = getattr(owner, name)
        own = self._put[id(owner), name] = self._stand_in(old, new, compiled)
        setattr(owner, name, own)

        def undo() -> None:
            if vars(owner).get(name) is own:
                setattr(owner, name, old)
        self._undo.append(undo)

    def put_everywhere(self, new_of: dict[Callable[..., Any], Callable[..., Any]]) -> None:
        """Puts functions in the places of others wherever a module has these."""
        for old, new in new_of.items():
            self._everywhere[id(old)] = old, self._stand_in(old, new)
        self.spread()

    def spread(self) -> None:
        """Does so for modules that came since."""
        _swap({id(old): own for old, own in self._everywhere.values()})

    def end(self) -> None:
        """Puts back what was there before."""
        self.active = False
        while self._undo:
            self._undo.pop()()
        _swap({id(own): old for old, own in self._everywhere.values()})

    def _stand_in(self, khop_old: Any, khop_new: Callable[..., Any], compiled: bool = False) -> Any:
        """A function that calls the new one while this is in force, with the old one's name and signature. TorchScript
        and torch.compile take the old one: they unwrap what is marked as script_if_tracing marks it. TorchScript finds
        that of a method without."""
        khop_self = self

        def either(*args: Any, **kwargs: Any) -> Any:
            return (khop_new if khop_self.active else khop_old)(*args, **kwargs)
        if isinstance(khop_old, types.FunctionType):  # a script of a method resolves names by the globals
            either = types.FunctionType(  # and torch.compile looks at the defaults
                either.__code__, khop_old.__globals__, khop_old.__name__, khop_old.__defaults__, either.__closure__)
            either.__kwdefaults__ = khop_old.__kwdefaults__
        else:
            self._register(khop_old, either)
        functools.update_wrapper(either, khop_old)
        if not compiled:
            setattr(either, "__script_if_tracing_wrapper", True)
            setattr(either, "__original_fn", khop_old)
        return either

    def _register(self, old: Any, own: Any) -> None:
        """Lets scripts take a function of torch's for the operator that the old one is."""
        builtins = _torch.jit._builtins
        operator = builtins._find_builtin(old)
        if operator is not None:
            builtins._register_builtin(own, operator)
            self._undo.append(lambda: builtins._get_builtin_table().pop(id(own), None))


def _swap(by_id: dict[int, Any]) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        found = [(n, id(v)) for n, v in list(names.items()) if id(v) in by_id] if type(names) is dict else []
        for name, there in found:
            setattr(module, name, by_id[there])
