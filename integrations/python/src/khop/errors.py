"""The exceptions of khop, which all derive from KhopError, and its warning."""

import os
import sys
import warnings

_HERE = os.path.dirname(__file__) + os.sep


class KhopWarning(UserWarning):
    """What khop guessed, left out or changed, or a choice that is seldom meant: the notes of the command line."""


def warn(text: str) -> None:
    """Warns at the line that called into this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, KhopWarning, stacklevel=level)


class KhopError(Exception):
    """Base of all exceptions that khop raises on purpose."""

    code = 0
    """What the server calls it (docs/feed.md, "Errors"); 0 for what does not come from there."""

    command = ""
    """How the khop program was started that said it; empty where that is not known."""

    output = ""
    """What that program wrote last, all of it that is kept: for reports of bugs."""


class BinaryNotFound(KhopError):
    """There is no khop program to start. The message lists the places that were searched."""


class LibraryNotFound(KhopError):
    """The shared library, which loaders in this process need, is missing or cannot be loaded."""


class OptionError(KhopError, ValueError):
    """An invalid option, or an invalid value. The message names it, and what khop accepts."""


class ServerError(KhopError):
    """The server reported a failure, or ended. The message gives the reason, if it is known."""


class WriteError(KhopError):
    """A graph that cannot become a dataset, or a target that cannot hold one. The message names array and row."""


class ProtocolError(KhopError):
    """The other side sent a message that docs/feed.md does not allow. The connection is closed."""


class BusyError(KhopError):
    """An iterator that is used after another one of its loader began."""


class SlotsHeldError(KhopError):
    """All slots of the ring are held by arrays that are still in use. The message names the batches."""


class RanksError(KhopError):
    """Ranks that load different things, or a rank without a loader. The message names the rank, and the difference."""


class StateError(KhopError):
    """A state of another dataset or of other options."""


class DeviceError(KhopError):
    """A CUDA device that does not exist, or that cannot share memory with this process."""


class ForkError(KhopError):
    """A loader was used in a process that was forked from the one that made it."""
