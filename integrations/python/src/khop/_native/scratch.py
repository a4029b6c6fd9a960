"""Temporary folders that are removed with their process, however it ends."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import weakref
from typing import Optional

# Slurm and torchrun end a trainer by signals, for which Python runs no exit handlers. So a shell of its own session
# reads the names of the folders, and removes them when the process is gone: the pipe then ends. It knows a folder
# before that is made. A command that still writes there ends as well, but maybe later.
_WATCH = """trap '' HUP INT QUIT TERM
while IFS= read -r folder; do set -- "$@" "$folder"; done
for i in 1 2 3 4 5 6 7 8 9; do rm -rf -- "$@" && break; sleep 1; done
"""


class _Watcher:
    """The shell that watches this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe: Optional[int] = None

    def watch(self, folder: str) -> None:
        name = os.fsencode(folder)
        if b"\n" in name:  # which is how names are kept apart
            return
        with self._lock:
            if self._pipe is None:
                self._pipe = self._start()
            os.write(self._pipe, name + b"\n")

    def _start(self) -> int:
        ours, its = os.pipe()  # neither is inherited by programs that this process runs
        try:
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "khop"], stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                cwd="/", start_new_session=True)
            shell.returncode = 0  # nobody waits for it: it outlives this process, so its object must not complain
        finally:
            os.close(ours)
        return its

    def forget(self) -> None:
        """In a child that was forked: what it makes is its own."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        self._lock = threading.Lock()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.forget)


SMALL = 8 << 20
"""Bytes of arrays for which a folder in memory has room, and what comes of them."""


class Scratch:
    """A folder for temporary files. It is removed by close, with this object, or with the process that made it."""

    def __init__(self, what: str, beside: Optional[str] = None, small: bool = False) -> None:
        """beside is the parent folder. By default that is the system's for temporary files, or for small ones a folder
        in memory, where no write waits for a disk."""
        parent = beside or (_memory() if small else None) or tempfile.gettempdir()
        self.path = os.path.join(parent, what + secrets.token_hex(8))
        _watcher.watch(self.path)
        os.mkdir(self.path, 0o700)
        self._end = weakref.finalize(self, _remove, self.path, os.getpid())

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def close(self) -> None:
        self._end()


def _memory() -> Optional[str]:
    """A folder in memory, where the system has one with room to spare."""
    try:
        about = os.statvfs("/dev/shm")
        roomy = about.f_bavail * about.f_frsize >= 6 * SMALL and os.access("/dev/shm", os.W_OK | os.X_OK)
    except OSError:
        return None
    return "/dev/shm" if roomy else None


def _remove(folder: str, owner: int) -> None:
    if owner == os.getpid():  # and not a child that was forked
        shutil.rmtree(folder, ignore_errors=True)
