"""Processes of a machine that share one server: they begin together, and the process that started it ends last.

Nothing is left behind, whichever process dies: the folder is the server's, the locks are the kernel's.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Callable, Optional

from ..errors import RanksError, ServerError
from ..place import Place, socket_folder

_LEAVING = 10.0  # seconds that the host waits for the others, who may have crashed
_STRANGE = 3.0  # seconds that ranks of another parent have to turn out to be a run of their own


class Meeting:
    """One process's part in a shared server, once it has connected."""

    def __init__(self, path: str, place: Place) -> None:
        self._folder = os.path.dirname(path)
        self._place = place
        self._fd: Optional[int] = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if place.local_rank != 0:
            fcntl.flock(self._fd, fcntl.LOCK_SH)
            os.close(os.open(self._sign(place.local_rank), os.O_WRONLY | os.O_CREAT, 0o600))

    def _sign(self, local_rank: int) -> str:
        return os.path.join(self._folder, f"joined-{local_rank}")

    def wait_for_all(self, timeout: float, check: Callable[[], None]) -> None:
        """Makes the host wait until the others have connected, so that it cannot end the server before. check raises if
        waiting is useless."""
        deadline = time.monotonic() + timeout
        missing = set(range(1, self._place.local_world_size))
        while True:
            for local_rank in list(missing):
                try:
                    os.unlink(self._sign(local_rank))
                    missing.discard(local_rank)
                except FileNotFoundError:
                    pass
            if not missing:
                return
            check()
            if time.monotonic() > deadline:
                raise ServerError(
                    f"local ranks {sorted(missing)} did not join within {timeout:.0f} s: every process makes its "
                    "loaders, in the same order; a loader for one process only is made with rank=0, world_size=1"
                )
            time.sleep(0.005)

    def leave(self) -> None:
        """Makes the host wait, for some seconds at most, until the others have left."""
        fd, self._fd = self._fd, None
        if fd is None:
            return
        deadline = time.monotonic() + (_LEAVING if self._place.local_rank == 0 else 0)
        try:
            while self._place.local_rank == 0:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        break
                time.sleep(0.01)
            fcntl.flock(fd, fcntl.LOCK_UN)  # also where a forked child has the descriptor too
        finally:
            os.close(fd)


class Parents:
    """Detects ranks of one run that two processes started, such as two shells. If only the parent tells runs apart,
    such ranks wait for each other at two places. Each rank leaves an empty file while it waits."""

    def __init__(self, rank: int) -> None:
        self._folder = os.path.join(socket_folder(), "waiting")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._note = os.path.join(self._folder, f"{os.getppid()}-{rank}-{os.getpid()}")
        os.close(os.open(self._note, os.O_WRONLY | os.O_CREAT, 0o600))
        self._seen: dict[int, set[int]] = {}  # ranks by parent, those that have left as well
        self._since: Optional[float] = None

    def check(self) -> None:
        """Raises RanksError if another parent has ranks that this one lacks, and no others, for some seconds."""
        for name in os.listdir(self._folder):
            parent, rank, process = map(int, name.split("-"))
            if os.path.exists(f"/proc/{process}"):
                self._seen.setdefault(parent, set()).add(rank)
            else:
                Parents._remove(os.path.join(self._folder, name))
        own = self._seen.get(os.getppid(), set())
        strange = {p: ranks for p, ranks in self._seen.items() if not ranks & own}
        if not strange:
            self._since = None
            return
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > _STRANGE:
            parent, ranks = next(iter(strange.items()))
            raise RanksError(
                f"process {os.getppid()} started ranks {sorted(own)}, and process {parent} ranks {sorted(ranks)}: to "
                "share a loader they need to know that they are one run. Set the same MASTER_ADDR and MASTER_PORT for "
                "all, start them by one launcher, or give rank= and world_size= for a server each")

    def leave(self) -> None:
        """Removes the file of this rank."""
        Parents._remove(self._note)

    @staticmethod
    def _remove(path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
