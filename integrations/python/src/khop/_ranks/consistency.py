"""Compares what all ranks are about to load, over torch.distributed's store or a folder that they all reach.

Without the comparison, a rank that differs would train on other batches without an error.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any, Mapping, Optional, Union

from ..errors import RanksError
from .._config.configuration import OPTIONS, value_of
from ..place import Place, socket_folder

_FAILED = 5.0  # seconds that a rank that has failed takes to tell the others
_loaders_made = 0  # of this process that compare: all ranks make theirs in the same order


class _Store:
    """torch.distributed's key-value store: no collective, so no rank can be in another one meanwhile."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def gather(self, name: str, place: Place, note: str, timeout: float) -> list[str]:
        """The notes of all ranks, in their order. Rank 0 collects them."""
        deadline = time.monotonic() + timeout
        self._store.set(f"{name}/{place.rank}", note)
        if place.rank != 0:
            return _list(self._wait(f"{name}/all", deadline, "rank 0, or one that it waits for, has"))
        notes = [self._wait(f"{name}/{r}", deadline, f"rank {r} has") for r in range(place.world_size)]
        self._store.set(f"{name}/all", json.dumps(notes))
        return notes

    def _wait(self, key: str, deadline: float, who: str) -> str:
        try:
            self._store.wait([key], timedelta(seconds=max(0.001, deadline - time.monotonic())))
        except RuntimeError:
            raise _missing(who) from None
        return str(self._store.get(key), "utf-8")


class _Folder:
    """A folder that all ranks reach. What an earlier run has left there is nothing to this one: rank 0 draws a number
    for the run, notes say it, and its answer says the number of each note."""

    def __init__(self, path: str) -> None:
        self._path = path

    def gather(self, name: str, place: Place, note: str, timeout: float) -> list[str]:
        """The notes of all ranks, in their order."""
        os.makedirs(self._path, exist_ok=True)
        name, own, deadline, wait = name.replace("/", "-"), secrets.token_hex(8), time.monotonic() + timeout, 0.002
        if place.rank == 0:
            self._write(f"{name}-run", {"run": own})
        run = ""
        while True:
            if place.rank == 0:
                notes = [{"run": own, "note": note}, *(self._read(f"{name}-{r}") for r in range(1, place.world_size))]
                missing = [r for r, other in enumerate(notes) if other.get("run") != own]
                if not missing:
                    self._write(f"{name}-all", {"notes": notes})
                    return [str(n.get("note")) for n in notes]
            else:
                said = str(self._read(f"{name}-run").get("run", ""))
                if said != run:
                    run = said
                    self._write(f"{name}-{place.rank}", {"run": run, "own": own, "note": note})
                notes = self._read(f"{name}-all").get("notes", [])
                if len(notes) == place.world_size and notes[place.rank].get("own") == own:
                    return [str(n.get("note")) for n in notes]
            if time.monotonic() > deadline:
                raise _missing(f"ranks {missing} have" if place.rank == 0 else "rank 0, or one that it waits for, has")
            time.sleep(wait)
            wait = min(2 * wait, 0.1)

    def _write(self, name: str, what: Mapping[str, Any]) -> None:
        with tempfile.NamedTemporaryFile("w", dir=self._path, prefix=".khop-", delete=False) as f:
            json.dump(what, f)
        os.replace(f.name, os.path.join(self._path, name))

    def _read(self, name: str) -> dict[str, Any]:
        try:
            with open(os.path.join(self._path, name)) as f:
                found = json.load(f)
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found if isinstance(found, dict) else {}


def _list(text: str) -> list[str]:
    return [str(note) for note in json.loads(text)]


def _missing(who: str) -> RanksError:
    return RanksError(f"{who} not come to compare: every process makes its loaders, in the same order; a loader for "
                      "one process only is made with rank=0, world_size=1")


class Ranks:
    """A loader's part in the comparison."""

    def __init__(self, place: Place, asked: bool, folder: Union[None, str, bytes, os.PathLike[Any]], timeout: float
                 ) -> None:
        """asked is true if rank and world size were arguments: such a loader may be the only one of its process."""
        global _loaders_made
        self.place, self._timeout = place, timeout
        self._board: Union[None, _Store, _Folder] = None
        if place.world_size > 1 and folder is not None:
            self._board = _Folder(os.fsdecode(folder))
        elif place.world_size > 1 and not asked and place.source == "torch.distributed":
            distributed = sys.modules["torch.distributed"]
            self._board = _Store(distributed.distributed_c10d._get_default_store())
        if self._board is not None:
            self._name = f"khop/{_loaders_made}"
            _loaders_made += 1
            if not place.here or place.source == "torch.distributed" and place.local_world_size > 1:
                self._find_machine()

    def _find_machine(self) -> None:
        """Sets which ranks this machine has, those that see the same folder of sockets, and the socket for them,
        whichever processes started them. What the environment says apart stays apart."""
        folder = socket_folder()
        at, meeting = os.stat(folder), os.path.join(folder, secrets.token_hex(8), "feed.sock")
        with open("/proc/sys/kernel/random/boot_id") as f:
            own = [f.read().strip(), at.st_dev, at.st_ino]
        assert self._board is not None
        notes = self._board.gather(self._name + "/machine", self.place, json.dumps([own, meeting]), self._timeout)
        machines = [json.loads(note) for note in notes]
        here = tuple(r for r, (machine, _) in enumerate(machines) if machine == own and r in (self.place.here or (r,)))
        self.place = replace(self.place, here=here, local_rank=here.index(self.place.rank),
                             meeting=str(machines[here[0]][1]))

    def compare(self, about: Mapping[str, Any], fanouts: Any, options: Mapping[str, Any]) -> None:
        """Raises RanksError, on all ranks, unless all load the same. about is the server's description; the server may
        have other options than this process."""
        state = about.get("state", {})
        said = {key: value_of(key, options) for key, of in OPTIONS.items()
                if of.samplers or key in state or key in ("remainder", "split")}
        served = {f"served {key}" if key in said else key: value for key, value in state.items()}
        own = {**said, **served, "fanouts": fanouts, "world_size": self.place.world_size}
        for rank, other in enumerate(notes := self._notes(own, self._timeout)):
            if "failed" in other:
                raise RanksError(f"rank {rank} has no loader: {other['failed']}")
            for key in sorted({*notes[0], *other}):
                if other.get(key) != notes[0].get(key):
                    raise RanksError(
                        f"rank {rank} has {key} {other.get(key)!r}, rank 0 has {notes[0].get(key)!r}: all ranks load "
                        "the same dataset with the same options")

    def failed(self, error: BaseException) -> None:
        """Tells the other ranks that this one has no loader."""
        if self._board is not None and not isinstance(error, RanksError):
            try:
                self._notes({"failed": str(error)}, _FAILED)
            except (RanksError, OSError, RuntimeError):
                pass  # its own error is the one that matters here

    def _notes(self, own: Mapping[str, Any], timeout: float) -> list[dict[str, Any]]:
        if self._board is None:
            return [dict(own)]
        notes = self._board.gather(self._name + "/loader", self.place, json.dumps(own, default=str), timeout)
        return [json.loads(n) for n in notes]
