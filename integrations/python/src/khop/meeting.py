"""Several processes of a machine that share one server: they begin together, and the one that has started it ends last.

Nothing is left behind, whoever dies: the folder is the server's, the locks are the kernel's.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import Callable, Optional

from .errors import ServerError
from .place import Place

_LEAVING = 10.0  # seconds that the host waits for the others, who may have crashed


class Meeting:
    """A process's part in it, from when it has connected."""

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
        """The host waits until the others have connected, so that it cannot end the server before. check raises if that
        is hopeless."""
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
        """The host waits, for some seconds at most, until the others have left."""
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
