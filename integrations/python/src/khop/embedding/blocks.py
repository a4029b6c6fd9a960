"""A khop embed that has this process compute layers, in memory that both have."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import subprocess
import tempfile
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from .layers import Layer
from .._config.configuration import nameless
from .._native import endings
from ..errors import KhopError, OptionError

_END = 5.0  # seconds that khop may take to end
_SAID = "khop: "  # what errors begin with
_OPTION = re.compile("--([a-z-]+)")


class Room:
    """A file in memory that khop has open, too, by its path."""

    def __init__(self) -> None:
        self._file = nameless()
        self.number = self._file.fileno()  # which a program inherits
        self.path = f"/proc/self/fd/{self.number}"
        self._floats: Any = None

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """What floats gave stays valid."""
        self._file.close()
        self._floats = None

    def floats(self, count: int) -> Any:
        """So many floats from the beginning, as a tensor that is valid until more are asked for."""
        import torch

        if self._floats is None:
            self._floats = torch.empty(0)
        if len(self._floats) < count:
            self._file.truncate(4 * count)
            self._floats = torch.frombuffer(mmap.mmap(self.number, 4 * count), dtype=torch.float32)
        return self._floats

    def resize(self, size: int) -> None:
        """Makes it as large as this, in bytes. What floats gave is invalid then."""
        self._file.truncate(size)

    def put(self, at: int, array: Any) -> None:
        """Writes an array to a place."""
        data = _bytes(np.ascontiguousarray(array))
        while data:
            done = os.pwrite(self.number, data, at)
            data, at = data[done:], at + done

    def get(self, at: int, array: Any) -> None:
        """Reads a whole array from a place."""
        data = _bytes(array)
        while data:
            done = os.preadv(self.number, [data], at)
            data, at = data[done:], at + done


def _bytes(array: Any) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))


def flags(**options: Any) -> list[str]:
    """The options that are given, for a command line."""
    return [text for name, value in options.items() if value is not None for text in (
        f"--{name.replace('_', '-')}", os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else str(value))]


class Served:
    """A khop embed, and the blocks that it asks for. It ends with close, and with this process."""

    def __init__(self, command: Sequence[str], layers: Sequence[Layer], *rooms: Room, alone: bool = False) -> None:
        """The first room is for blocks; the command names others. With alone, Ctrl-C is for this process only."""
        self._layers, self._room, self._owner = layers, rooms[0], os.getpid()
        self.failed: Optional[BaseException] = None
        """What a layer raised, so that the next answer is an error."""
        self._command = [*command, "--parent", str(self._owner)] + ["--blocks", rooms[0].path] * bool(layers)
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                pass_fds=[room.number for room in rooms], start_new_session=alone)
        except BaseException:
            self._said.close()
            raise

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Writes a line. One that ends meanwhile does not read it: line and death say so."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def line(self) -> bytes:
        """Computes the blocks that come, and returns the next other line; nothing when khop has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith(b'{"layer"'):
                return line
            answer = b""
            try:
                _block(json.loads(line), self._layers, self._room)
            except BaseException as error:
                self.failed = error
                answer = str(error).replace("\n", " ").encode("utf-8", "replace")[:1000] + b" "
            self.send(answer)
        return b""

    def death(self) -> KhopError:
        """Waits until khop has ended, and returns why."""
        status, lines = self._process.wait(), endings.written(self._said)
        text = endings.violent("khop embed", status, lines)
        if text is not None:
            return endings.with_output(KhopError(text), self._command, lines)
        said = [line for line in lines if line.startswith(_SAID)]  # others are hints
        text = said[-1][len(_SAID):] if said else f"khop embed has ended with status {status}"
        option = _OPTION.match(text)
        if option is not None:
            text = {"type": "node_type"}.get(option[1], option[1].replace("-", "_")) + text[option.end():]
        return endings.with_output((OptionError if option else KhopError)(text), self._command, lines)

    def check(self) -> None:
        """Waits until khop has ended, and raises if it failed."""
        if self._process.wait():
            raise self.error(self.death())

    def error(self, of: KhopError) -> BaseException:
        """The error to raise for one of khop: what a layer raised, where that was the reason."""
        failed, self.failed = self.failed, None
        if failed is None:
            return of
        failed.args = (f"{failed} ({of})", *failed.args[1:])
        return failed

    def close(self) -> None:
        """Ends khop: by a signal, and if it does not end in time, by a kill. In a forked process it does nothing."""
        if self._owner != os.getpid():
            return
        process = self._process
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._said.close()


def _block(line: dict[str, Any], layers: Sequence[Layer], room: Room) -> None:
    """Computes the rows of a block, in memory that the command has mapped, too."""
    layer, nodes, own, to = layers[line["layer"]], line["nodes"], line["own_floats"], line["row_floats"]
    rows, sums, at = to // layer.width, {}, own
    memory = room.floats(own + to + sum(s["floats"] for s in line["sums"]))
    for one in line["sums"]:
        sums[tuple(one["edges"].split(":"))] = memory[at:at + one["floats"]].view(rows, -1)
        at += one["floats"]
    function: Any = layer.function
    typed = isinstance(function, Mapping)
    if typed and nodes not in function:
        raise OptionError(f"layer {line['layer'] + 1} has no function for nodes of type {nodes!r}, whose rows it "
                          f"needs: there are {', '.join(map(repr, function))}")
    if len(sums) > 1 and not typed:
        raise OptionError(f"layer {line['layer'] + 1} sums over edges of {len(sums)} types: give a dict of functions "
                          "by the type of nodes")
    given: Any = sums if typed or not sums else next(iter(sums.values()))
    made = (function[nodes] if typed else function)(memory[:own].view(rows, -1) if own else None, given)
    if tuple(made.shape) != (rows, layer.width):
        raise OptionError(f"layer {line['layer'] + 1} made rows of the shape {tuple(made.shape)}, not "
                          f"{(rows, layer.width)}: its width must be that of its rows")
    memory[at:at + to].view(rows, -1).copy_(made)
