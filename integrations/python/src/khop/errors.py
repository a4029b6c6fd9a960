"""What can go wrong, as exceptions. All derive from KhopError."""


class KhopError(Exception):
    """Base of everything that khop raises on purpose."""

    code = 0
    """What the server calls it (docs/feed.md, "Errors"); 0 for what does not come from there."""

    command = ""
    """How the khop program was started that said it; empty where that is not known."""

    output = ""
    """What that program wrote last, all of it that is kept: for reports of bugs."""


class BinaryNotFound(KhopError):
    """There is no khop program to start; the message lists where it was looked for."""


class LibraryNotFound(KhopError):
    """The shared library, which loaders in this process need, is not there or cannot be loaded."""


class OptionError(KhopError, ValueError):
    """An option, or a value of one, that khop does not take. The message names it, and says what khop takes."""


class ServerError(KhopError):
    """The server said that it cannot go on, or ended. The message says why, as far as that is known."""


class WriteError(KhopError):
    """A graph that makes no dataset, or a place that takes none. The message names array and row."""


class ProtocolError(KhopError):
    """The other side sent something that docs/feed.md does not allow. The connection is closed."""


class BusyError(KhopError):
    """A second iterator of a loader whose first one is still in use."""


class SlotsHeldError(KhopError):
    """Every slot of the ring is held by arrays that are still in use. The message names the batches."""


class RanksError(KhopError):
    """Ranks that do not load the same, or one that has no loader. The message names the rank, and what differs."""


class StateError(KhopError):
    """A state that belongs to another dataset or to other options."""


class DeviceError(KhopError):
    """A CUDA device that is not there, or cannot share memory with this process."""


class ForkError(KhopError):
    """A loader was used in a process that was forked from the one that made it."""
