"""A `khop serve` that this process starts and ends."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Callable, Optional, Sequence

from ..errors import KhopError, ServerError
from .._config.configuration import Configuration
from .._native import endings
from .._native.scratch import Scratch

_TAIL_LINES = 20
END = 5.0  # seconds that a server may take to end


class Server:
    """The server's process, its socket and its output.

    It ends when close is called, when this object is gone, and when this process dies, however it dies.
    """

    def __init__(
        self, binary: str, dataset: str, config: Configuration, flags: Sequence[str] = (), path: Optional[str] = None,
        quiet: bool = True,
    ) -> None:
        """path is the socket. By default it is in a private folder, which the server makes, and which is removed after
        the connection, or when this process dies before.

        flags are of khop serve, and override config. With quiet the server's stderr is kept for error messages, else it
        goes to this process's stderr.
        """
        self._config = config
        self._owner = os.getpid()
        self.data: Optional[Scratch] = None  # a folder that goes with the server: the dataset of a graph in memory
        self._folder = None if path else os.path.join(tempfile.gettempdir(), f"khop-{secrets.token_hex(8)}")
        self.path = path or os.path.join(self._folder or "", "feed.sock")
        self.command = [
            binary, "serve", dataset, "--config", config.file(), "--socket", self.path, "--parent", str(self._owner),
            *flags]
        self._log = tempfile.TemporaryFile() if quiet else None
        self._process: Optional[subprocess.Popen[bytes]] = None
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=self._log or sys.stderr, stderr=self._log or sys.stderr,
                pass_fds=config.inherit(), start_new_session=True,  # Ctrl-C is for the trainer, which ends the server
            )
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def connect(self, timeout: float) -> socket.socket:
        """Connects as soon as the server listens."""
        return connect(self.path, timeout, self.check)

    def forget_socket(self) -> None:
        """Removes the private folder: no other process will connect."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def check(self) -> None:
        """Raises if the server has ended."""
        error = self.death()
        if error is not None:
            raise error

    def death(self, wait: float = 0.0) -> Optional[KhopError]:
        """Returns why the server has ended; None while it runs. The server has wait seconds to end, and to write its
        last messages."""
        if self._process is None:
            return None
        try:
            status = self._process.wait(wait)
        except subprocess.TimeoutExpired:
            return None
        lines = self._written()
        error = self._config.failure(lines[-1]) if lines and status in (1, 2) else None
        text = endings.violent("khop serve", status, lines)
        if text is not None:
            error = ServerError(text)
        elif error is None:
            error = ServerError(f"khop serve has ended with status {status}" + "".join(
                f"\n{line}" for line in lines[-_TAIL_LINES:]))
        return endings.with_output(error, self.command, lines)

    def last_words(self) -> str:
        """Returns the last lines that the server wrote."""
        return "\n".join(self._written()[-_TAIL_LINES:])

    def _written(self) -> list[str]:
        return [] if self._log is None else endings.written(self._log)

    def close(self, timeout: float = END) -> None:
        """Ends the server: by a signal, and if it does not end in time, by a kill."""
        process, self._process = self._process, None
        if process is not None and self._owner != os.getpid():
            return  # a child that was forked: the server is its parent's
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.forget_socket()
        if self.data is not None:
            self.data.close()
            self.data = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()


def connect(path: str, timeout: float, check: Callable[[], None] = lambda: None) -> socket.socket:
    """Connects to a server's socket, and waits until it listens. check is called meanwhile, and raises if waiting is
    useless."""
    deadline = time.monotonic() + timeout
    wait = 0.002
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            s.connect(path)
            return s
        except (FileNotFoundError, ConnectionRefusedError) as e:
            s.close()
            why = e.strerror
        except BaseException:
            s.close()
            raise
        check()
        if time.monotonic() > deadline:
            shown = path.encode("utf-8", "backslashreplace").decode()
            raise ServerError(f"no server at {shown} after {timeout:.0f} s: {why}")
        time.sleep(wait)
        wait = min(2 * wait, 0.1)
