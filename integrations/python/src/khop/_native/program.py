"""Runs commands of khop to their end."""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from . import library as _library
from .. import binary as _binary
from ..errors import KhopError, ServerError, warn
from .._config.configuration import Configuration, nameless


_NOTE = "khop: note: "
_USUAL = ", and kept", ", as batches know it"


class Done(NamedTuple):
    """The result of a command: exit status and output."""

    status: int
    stdout: bytes
    stderr: bytes

    def notes(self) -> list[str]:
        """The notes of the command, but of what was kept, or has the names that batches have."""
        lines = self.stderr.decode("utf-8", "replace").splitlines()
        return [line.replace(_NOTE, "", 1) for line in lines
                if line.startswith(_NOTE) and not line.endswith(_USUAL)]

    def check(self) -> None:
        """Raises the command's message as a ServerError if it failed."""
        if self.status:
            raise ServerError(self.stderr.decode("utf-8", "replace").strip().replace("khop: ", "", 1))


def call(
    arguments: Sequence[str], binary: Optional[_binary.PathLike] = None, inherit: Sequence[int] = (),
    small: bool = False,
) -> Done:
    """Runs a command line by the khop program. A small one, which nobody will want to interrupt, runs in this process
    if the shared library is loaded: that is faster than starting a program."""
    if small and binary is None and _library.loaded():
        return _within([os.fsencode(a) for a in arguments])
    done = subprocess.run(
        [_binary.find(binary), *arguments, "--parent", str(os.getpid())], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=inherit)
    return Done(done.returncode, done.stdout, done.stderr)


def _within(arguments: Sequence[bytes]) -> Done:
    run = _library.load().function(
        "khop_run", ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32))
    status = ctypes.c_int32()
    with nameless() as out, nameless() as err:
        run((ctypes.c_char_p * len(arguments))(*arguments), len(arguments), out.fileno(), err.fileno(), status)
        out.seek(0)
        err.seek(0)
        return Done(status.value, out.read(), err.read())


def run(
    command: str, arguments: Sequence[str], options: Mapping[str, Any], binary: Optional[_binary.PathLike] = None,
    otherwise: type[KhopError] = ServerError, small: bool = False, clean: Callable[[str], str] = str,
) -> Done:
    """Runs a command. Refused options are an OptionError, other failures an error of the type otherwise; notes are
    warnings. clean gets each text, and returns what a user shall read, such as without temporary paths."""
    config = Configuration(options)
    try:
        done = call([command, *arguments, "--config", config.file()], binary, config.inherit(), small)
    finally:
        config.close()
    if done.status:
        said = clean(done.stderr.decode("utf-8", "replace").strip())
        raise config.failure(said.rpartition("\n")[2], otherwise) or otherwise(
            said or f"khop {command} has ended with status {done.status}")
    for note in done.notes():
        warn(clean(note))
    return done
