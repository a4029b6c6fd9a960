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

from .errors import ServerError

_TAIL_LINES = 20
_END = 5.0  # seconds that a server may take to end


class Server:
    """The process, its socket and what it writes.

    It ends when close is called, when this object is gone, and when this process dies, however it dies.
    """

    def __init__(
        self, binary: str, dataset: str, options: Sequence[str], path: Optional[str] = None, quiet: bool = True, inherit: Sequence[int] = (),
    ) -> None:
        """path is the socket; without it there is one in a folder of its own, which goes as soon as it has been connected to.

        The server makes the folder, and removes it if this process dies before. inherit are file descriptors that it gets. With quiet what the server writes to stderr is kept for error messages, else it goes to this process's stderr.
        """
        self._owner = os.getpid()
        self._folder = None if path else os.path.join(tempfile.gettempdir(), f"khop-{secrets.token_hex(8)}")
        self.path = path or os.path.join(self._folder or "", "feed.sock")
        self.command = [binary, "serve", dataset, "--socket", self.path, "--parent", str(self._owner), *options]
        self._log = tempfile.TemporaryFile() if quiet else None
        self._process: Optional[subprocess.Popen[bytes]] = None
        try:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=self._log or sys.stderr, stderr=self._log or sys.stderr,
                pass_fds=inherit, start_new_session=True,  # Ctrl-C is for the trainer, which then ends the server
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
        """Removes the private folder: nobody else will connect."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def check(self) -> None:
        """Raises if the server has ended."""
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            command = " ".join(self.command).encode("utf-8", "backslashreplace").decode()  # paths are any bytes
            raise ServerError(f"khop serve has ended, status {status}:\n{self.last_words() or '(no output)'}\ncommand: {command}")

    def last_words(self, ending: bool = False) -> str:
        """The last lines that the server wrote. ending: it has closed the connection, and what it has to say may come after."""
        if ending and self._process is not None:
            try:
                self._process.wait(_END)
            except subprocess.TimeoutExpired:
                pass
        if self._log is None:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), 8192, max(0, size - 8192))
        return "\n".join(data.decode("utf-8", "replace").replace("\r", "\n").splitlines()[-_TAIL_LINES:])

    def close(self, timeout: float = _END) -> None:
        """Ends the server: asks, and if it does not end in time, kills."""
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
        if self._log is not None:
            self._log.close()
            self._log = None

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()


def connect(path: str, timeout: float, check: Callable[[], None] = lambda: None) -> socket.socket:
    """Connects to a server's socket, waiting for it to come up. check is called meanwhile, and raises if that is hopeless."""
    deadline = time.monotonic() + timeout
    wait = 0.002
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            s.connect(path)
            return s
        except (FileNotFoundError, ConnectionRefusedError) as e:
            s.close()
            check()
            if time.monotonic() > deadline:
                shown = path.encode("utf-8", "backslashreplace").decode()
                raise ServerError(f"no server at {shown} after {timeout:.0f} s: {e.strerror}") from None
        except BaseException:
            s.close()
            raise
        time.sleep(wait)
        wait = min(2 * wait, 0.1)
