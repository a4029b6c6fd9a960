"""Opens a loader's source of batches: a loader in this process, a server of its own, or a running server."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

from .. import binary as _binary
from .. import place as _place
from .._feed import server
from .._feed.feed import Feed
from .._feed.in_process import Inside
from .._ranks.host_rendezvous import Meeting, Parents
from .._config.configuration import Configuration
from .._native.scratch import Scratch
from .._data.memory import handle
from .._data.write import temporary

_loaders_made = 0  # of this process that have a server, for the meeting points of several ranks


@dataclass
class Opening:
    """All that a loader has opened, which ends with it. how are options of Feed."""

    place: _place.Place = field(default_factory=_place.Place)
    how: Mapping[str, Any] = field(default_factory=dict)
    start_timeout: float = 0.0
    quiet: bool = True
    binary: Optional[_binary.PathLike] = None
    device_why: str = ""  # batches are made on the host, where the loader says so and not the server
    feed: Optional[Feed] = None
    own: Optional[server.Server] = None
    _inside: Optional[Inside] = None
    _meeting: Optional[Meeting] = None
    _parents: Optional[Parents] = None
    _data: Optional[Scratch] = None  # a folder with a dataset of a graph in memory
    _pid: int = field(default_factory=os.getpid)

    def dataset(self, data: Any) -> str:
        """Returns the path of a dataset: a temporary one if data is a graph in memory."""
        if isinstance(data, (str, bytes, os.PathLike)):
            return os.fsdecode(data)
        self._data, path = temporary("khop-data-", data, self.binary, inside=False)
        return path

    def inside(self, dataset: Any, config: Configuration, flags: Sequence[str]) -> Feed:
        """Returns the feed of a loader in this process."""
        graph = handle(dataset)
        if not graph:
            config.options["dataset"] = self.dataset(dataset)
        if not config.options.get("workers") and self.place.local_world_size > 1:
            config.options["workers"] = max(1, len(os.sched_getaffinity(0)) // self.place.local_world_size)
        config.flags(flags)
        self._inside = Inside(config, self.quiet, graph)
        self._inside.wait(self.start_timeout)
        self.feed = Feed(self._inside, **self.how)
        return self.feed

    def server(
        self, dataset: Any, config: Configuration, flags: Sequence[str], socket: Optional[_binary.PathLike],
    ) -> Feed:
        """Returns the feed of a server, which local rank 0 starts, and which the other processes of the machine
        share."""
        global _loaders_made
        path = None if socket is None else os.fsdecode(socket)
        shared = self.place.local_world_size > 1
        if path is None and shared:
            path = self.place.meeting or _place.meeting_point(_loaders_made)
            self._parents = None if self.place.meeting or _place.run_is_named() else Parents(self.place.rank)
        _loaders_made += 1
        if self.place.local_rank == 0:
            data = self.dataset(dataset)
            self.own = server.Server(_binary.find(self.binary), data, config, flags, path, self.quiet)
            self.own.data, self._data = self._data, None
            connection = self.own.connect(self.start_timeout)
        else:
            assert path is not None
            connection = server.connect(path, self.start_timeout, self._check)
        self.feed = Feed(connection, start_timeout=self.start_timeout, server=self.own, **self.how)
        if self.own is not None:
            self.own.forget_socket()
        if shared and path is not None:
            self._meeting = Meeting(path, self.place)
            if self.own is not None:
                self._meeting.wait_for_all(self.start_timeout, self._check)
        if self._parents is not None:
            self._parents.leave()
        return self.feed

    def _check(self) -> None:
        """Raises where waiting for other ranks is hopeless."""
        if self.own is not None:
            self.own.check()
        if self._parents is not None:
            self._parents.check()

    def end(self) -> None:
        """Leaves the server, ends it if this process started it, and removes data. Does nothing in a forked child."""
        if self._pid != os.getpid():
            return
        if self.feed is not None:
            self.feed.close()
        elif self._inside is not None:
            self._inside.close()
        if self._parents is not None:
            self._parents.leave()
        if self._meeting is not None:
            self._meeting.leave()
        if self.own is not None and self.feed is not None:
            self.feed.ring.when_free(self.own.close)
        elif self.own is not None:
            self.own.close()
        if self._data is not None:
            self._data.close()
