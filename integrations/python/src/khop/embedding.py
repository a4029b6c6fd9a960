"""Rows of a torch module for every node, by ``khop embed``: khop sums over edges, in any memory, and torch computes the
dense part of each layer, some thousand nodes at a time.

    khop.embedding.embed([conv1, torch.nn.ReLU(), conv2], "products.khop", out="embedding")

docs/embed.md says how it works, and what it computes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import mmap
import os
import subprocess
import tempfile
from typing import Any, Callable, Iterator, Optional, Sequence

import numpy as np

from . import binary as _binary
from .errors import KhopError, OptionError

__all__ = ["Layer", "embed"]

ROWS = 4096
"""How many nodes a layer's function has at a time, but for the last."""


@dataclasses.dataclass
class Layer:
    """A layer: what it sums of the rows before, over all in-edges of a node ("sum", "mean" or "max"), how many numbers
    its own rows have, and a function that makes these of some nodes' own rows before, and of the sums: tensors of
    float32, which are valid until it returns."""

    reduce: str
    width: int
    function: Callable[[Any, Any], Any]


def embed(
    module: Any, dataset: _binary.PathLike, *, out: str = "embedding", nodes: Optional[str] = None,
    max_memory: Optional[int] = None, force: bool = False, name: Optional[str] = None,
    binary: Optional[_binary.PathLike] = None,
) -> dict[str, Any]:
    """Computes rows for every node of a dataset, over all neighbours, and writes them as a column, or to a .npy file.

    module is a list, or a torch.nn.Sequential (PyG's too), of layers: ``Layer``, PyG's SAGEConv, GraphConv and GINConv,
    and, behind each of these, modules that compute each row of its own, such as ReLU and Linear. They are put into
    evaluation mode while it runs. The other arguments are those of ``khop embed``; name tells modules apart where a run
    goes on that was stopped, and is made of the parameters where none is given.

    Returns what the command says. What a layer raises is raised, and rows of a wrong shape, or that are not finite, are
    an OptionError or KhopError with nodes and remedy; what is finished is kept, and the same call goes on from there.
    """
    import torch

    layers, modules = _layers(module)
    widths = [_width(dataset), *(layer.width for layer in layers)]
    room = ROWS * 4 * max(2 * a + b for a, b in zip(widths, widths[1:]))
    command = [_binary.find(binary), "embed", os.fspath(dataset), "--json", "--out", out,
               "--layers", ",".join(f"{layer.reduce}:{layer.width}" for layer in layers),
               "--name", name or _name(modules), "--parent", str(os.getpid())]
    for option, value in (("--nodes", nodes), ("--max-memory", max_memory)):
        command += [option, str(value)] if value is not None else []
    with _evaluated(modules), torch.no_grad(), _room(room) as (path, memory):
        return _serve(command + ["--blocks", path] + ["--force"] * force, layers, torch.frombuffer(
            memory, dtype=torch.float32))


def _serve(command: Sequence[str], layers: Sequence[Layer], memory: Any) -> dict[str, Any]:
    """Runs the command, and computes the blocks that it asks for."""
    with tempfile.TemporaryFile() as said, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as process:
        assert process.stdin is not None and process.stdout is not None
        failed: Optional[BaseException] = None
        rest = []
        for line in process.stdout:
            if not line.startswith(b'{"layer"'):
                rest.append(line)
                continue
            try:
                _block(json.loads(line), layers, memory)
                answer = b"\n"
            except BaseException as error:
                failed = error
                answer = str(error).replace("\n", " ").encode()[:1000] + b" \n"
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(answer)
                process.stdin.flush()
        process.stdin.close()
        if process.wait():
            said.seek(0)
            text = said.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            if failed is not None:
                failed.args = (f"{failed} ({text})", *failed.args[1:])
                raise failed
            raise KhopError(text)
        result: dict[str, Any] = json.loads(b"".join(rest))
        return result


def _block(line: dict[str, int], layers: Sequence[Layer], memory: Any) -> None:
    """Computes the rows of a block, in memory that the command has mapped, too."""
    layer, own, sums, to = layers[line["layer"]], line["own_floats"], line["sum_floats"], line["row_floats"]
    rows = to // layer.width
    made = layer.function(memory[:own].view(rows, -1), memory[own:own + sums].view(rows, -1))
    if tuple(made.shape) != (rows, layer.width):
        raise OptionError(f"layer {line['layer'] + 1} made rows of the shape {tuple(made.shape)}, not "
                          f"{(rows, layer.width)}: its width must be what it says")
    memory[own + sums:own + sums + to].view(rows, -1).copy_(made)


def _width(dataset: _binary.PathLike) -> int:
    """The columns of the features of a dataset."""
    with open(os.path.join(dataset, "dataset.json"), encoding="utf-8") as file:
        columns = json.load(file)["content"]["columns"]
    shape = next((c["shape"] for c in columns if c["name"] == "feature"), None)
    if not shape:
        raise OptionError(f'{os.fspath(dataset)} has no features: "khop add" gives its nodes some')
    return int(np.prod(shape))


def _layers(module: Any) -> tuple[list[Layer], list[Any]]:
    """The layers of a module, and the modules that have parameters."""
    layers: list[Layer] = []
    parts = list(module) if hasattr(module, "__iter__") else [module]
    for part in parts:
        known = part if isinstance(part, Layer) else _of_pyg(part)
        if known is not None:
            layers.append(known)
        elif not layers or not callable(part):
            raise OptionError(f"{part!r} is no layer: give a khop.embedding.Layer, or SAGEConv, GraphConv or "
                              "GINConv of PyG")
        else:
            layers[-1] = _behind(layers[-1], part)
    return layers, [p for p in parts if hasattr(p, "state_dict")]


def _behind(layer: Layer, part: Any) -> Layer:
    """A layer with a module behind it that computes each row of its own."""
    import torch

    with torch.no_grad():
        width = int(part(torch.zeros(2, layer.width)).shape[-1])
    return Layer(layer.reduce, width, lambda own, sums: part(layer.function(own, sums)))


def _of_pyg(conv: Any) -> Optional[Layer]:
    """The layer of a convolution of PyG; None for other modules."""
    kind, reduce = type(conv).__name__, {"add": "sum"}.get(getattr(conv, "aggr", ""), getattr(conv, "aggr", ""))
    if kind not in ("SAGEConv", "GraphConv", "GINConv"):
        if hasattr(conv, "propagate"):
            raise OptionError(f"{kind} is not known here: SAGEConv, GraphConv and GINConv are, or a "
                              "khop.embedding.Layer")
        return None
    if reduce not in ("sum", "mean", "max"):
        raise OptionError(f"{conv!r} reduces by {reduce!r}: khop has sum, mean and max")
    if kind == "GINConv":
        last = [m for m in conv.nn.modules() if hasattr(m, "out_features") or hasattr(m, "out_channels")][-1]
        return Layer(reduce, getattr(last, "out_features", None) or last.out_channels,
                     lambda own, sums: conv.nn(sums + (1 + conv.eps) * own))
    if kind == "GraphConv":
        return Layer(reduce, conv.out_channels, lambda own, sums: conv.lin_rel(sums) + conv.lin_root(own))
    if conv.normalize or getattr(conv, "project", False):
        raise OptionError(f"{conv!r} with normalize or project is not known here: give a khop.embedding.Layer")
    return Layer(reduce, conv.out_channels, lambda own, sums: conv.lin_l(sums) + (
        conv.lin_r(own) if conv.root_weight else 0))


def _name(modules: Sequence[Any]) -> str:
    """Tells modules apart by their parameters."""
    digest = hashlib.sha256()
    for module in modules:
        digest.update(repr(module).encode())
        for name, tensor in module.state_dict().items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def _evaluated(modules: Sequence[Any]) -> Iterator[None]:
    """Puts modules into evaluation mode, and back."""
    before = [(m, m.training) for module in modules for m in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for module, training in before:
            module.training = training


@contextlib.contextmanager
def _room(size: int) -> Iterator[tuple[str, mmap.mmap]]:
    """Memory that another process maps, too, by its path."""
    folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.NamedTemporaryFile(prefix="khop-embed-", dir=folder) as file:
        file.truncate(size)
        yield file.name, mmap.mmap(file.fileno(), size)
