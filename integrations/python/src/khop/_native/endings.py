"""What a program of khop wrote, and why it ended."""

from __future__ import annotations

import os
import re
import signal
from typing import IO, Optional, Sequence

from ..errors import KhopError

_TAIL_BYTES = 1 << 18
# Go's first words, before its stacks and registers.
_CRASH = re.compile(r"(panic: |fatal error: |unexpected fault address|SIG[A-Z]+: ).*")
_KILLED = ": where memory runs out the kernel does that (see dmesg); max_memory= bounds what khop takes"


def written(log: IO[bytes]) -> list[str]:
    """The last lines of a file that a program writes."""
    size = os.fstat(log.fileno()).st_size
    data = os.pread(log.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    return data.decode("utf-8", "replace").replace("\r", "\n").splitlines()


def violent(what: str, status: int, lines: Sequence[str]) -> Optional[str]:
    """Says how a program ended that crashed or was killed; None of one that ended by itself. what names it, and lines
    are those that it wrote."""
    crash = next((line for line in lines if _CRASH.match(line)), None)
    if crash is not None:  # the program of a wheel ends by a signal then
        return (f"{what} has crashed: {crash.rstrip()}. This is a bug, unless something sent it a signal; the "
                "error's .output has what it wrote")
    if status >= 0:
        return None
    name = signal.Signals(-status).name if -status in set(signal.Signals) else "an unknown signal"
    return f"{what} was ended by signal {-status} ({name})" + (_KILLED if -status == signal.SIGKILL else "")


def with_output(error: KhopError, command: Sequence[str], lines: Sequence[str]) -> KhopError:
    """The error, with the command that it is of, and what that wrote."""
    error.command = " ".join(command).encode("utf-8", "backslashreplace").decode()  # paths are any bytes
    error.output = "\n".join(lines)
    return error
