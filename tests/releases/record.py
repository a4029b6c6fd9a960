"""Records what a release promises, for later versions to be held to: python record.py KHOP FOLDER [datasets].

FOLDER then has two small datasets, golden.json with digests of batches and outputs of --json, feed.json with all that a
consumer and a server said, python.json with the names of the Python package (which PYTHONPATH has), and SHA256SUMS.
integrations/python/tests/test_releases.py opens them with today's code. With "datasets" there are those and their
digests alone. Records are never made again: a release is what it was.
"""
import array
import ast
import base64
import hashlib
import inspect
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import zlib

DATASETS = {"plain": ["sbm", "--nodes", "200", "--edges", "1200", "--features", "4", "--classes", "3", "--seed", "1"],
            "typed": ["typed", "--nodes", "240", "--edges", "1200", "--features", "4", "--classes", "3", "--seed", "2"]}
BATCHES = {  # --frontier is given: defaults may change, the meaning of options may not
    "plain": ["--fanouts 3,2 --frontier all", "--fanouts 4 --frontier new --shuffle --seed 9 --batch-size 32",
              "--fanouts 3,2 --frontier new --replace --epoch 2", "--sampler labor --fanouts 3,2 --frontier all",
              "--fanouts 3,2 --frontier new --seeds all --batch-size 64 --rank 1 --world-size 2"],
    "typed": ["--fanouts 3,2 --frontier all", "--fanouts 4 --frontier new --shuffle --seed 9 --batch-size 32"],
}
OUTPUTS = {"version": "version", "info": "info plain", "check": "check plain", "samplers": "samplers",
           "plan": "plan plain --fanouts 3,2", "sample": "sample plain --fanouts 3,2 --batches 1",
           "options": "options", "train": "train plain --epochs 2",
           "generate": "generate sbm {new} --nodes 50 --edges 90",
           "export": "export plain {new} --to numpy"}
FEED = "serve plain --fanouts 3,2 --frontier new --batch-size 50 --shuffle --seed 5 --json".split()
SIZE, SEGMENT, BATCH, END = 65536, 3, 6, 8


def run(khop, line, folder):
    p = subprocess.run([khop, *line], cwd=folder, capture_output=True, text=True)
    return p.stdout if p.returncode == 0 else None


def digests(khop, folder, dataset, options):
    """A line a batch: number, digest of the topology, full digest. None where this program knows no such option."""
    out = run(khop, ["sample", dataset, *options.split(), "--digest"], folder)
    return out and out.splitlines()


def shape(value):
    """The names and types of JSON, without its values."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(v) for v in value[:1]]
    return {bool: "bool", int: "number", float: "number", str: "text"}.get(type(value), "null")


def output(khop, folder, name):
    """What a command prints with --json; None where this program knows no such command."""
    with tempfile.TemporaryDirectory() as place:
        out = run(khop, [*OUTPUTS[name].format(new=f"{place}/new").split(), "--json"], folder)
    return out and shape(json.JSONDecoder().raw_decode(out)[0])


def parameters(function):
    """Names of parameters, and whether a call must give them."""
    known = inspect.signature(function).parameters.values()
    return {p.name: "must" if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) else "may"
            for p in known if p.name != "self"}


def members(kind):
    """What a class of the package has: methods with their parameters, and the other names."""
    own = {n: m for c in reversed(kind.__mro__) if c.__module__.startswith("khop") for n, m in vars(c).items()}
    return {n: parameters(m) if inspect.isfunction(m) else "value" for n, m in sorted(own.items())
            if n[0] != "_" or n == "__init__" and kind.__name__ in ("Loader", "Sampler")}


def python_names():
    """The names of khop.__all__ with what they have, and those of the modules that are named as peers' are."""
    import khop

    named = {n: getattr(khop, n) for n in khop.__all__}
    names = {n: members(v) if inspect.isclass(v) else parameters(v) if callable(v) else "value"
             for n, v in named.items()}
    for module in ("pyg", "dgl", "graphbolt"):  # whose peers need not be here
        text = (pathlib.Path(khop.__file__).parent / module / "__init__.py").read_text(encoding="utf-8")
        names[module] = {name: "value" for node in ast.parse(text).body if isinstance(node, ast.Assign)
                         and node.targets[0].id == "__all__" for name in ast.literal_eval(node.value)}
    return names


def serve(khop, folder, said):
    """Starts a server, says to it what a consumer has said, and yields its messages, with the descriptor of a segment.

    Acknowledgements come from here."""
    with tempfile.TemporaryDirectory(prefix="kr-") as place:
        server = subprocess.Popen([khop, *FEED, "--socket", f"{place}/d/s"], cwd=folder, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        try:
            assert any(line == b"}\n" for line in server.stdout), "the server did not say that it is ready"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.settimeout(60)
                s.connect(f"{place}/d/s")
                for message in said:
                    s.send(message)
                while True:
                    data, extra, _, _ = s.recvmsg(SIZE, socket.CMSG_SPACE(4))
                    if not data:
                        return
                    fds = array.array("i", extra[0][2] if extra else b"")
                    yield data, fds[0] if fds else None
                    kind, = struct.unpack_from("<H", data)
                    if kind == BATCH:  # done with it: its slot goes back
                        run_id, slot, sequence = struct.unpack_from("<IIQ", data, 8)
                        s.send(struct.pack("<HHIIIQI", 7, 0, 28, run_id, 1, sequence + 1, slot))
                    if kind == END:
                        s.send(struct.pack("<HHIII", 13, 0, 16, 0, 0))
                        return
        finally:
            server.terminate()
            server.wait()


def consumer(run_id=1):
    """What a consumer says to get an epoch, all at once: HELLO and BEGIN."""
    hello = struct.pack("<HHI8sHHIIIII", 1, 0, 64, b"khopfeed", 1, 1, 0xFFFFFFFF, 0, 16, 1, 0).ljust(64, b"\0")
    return [hello, struct.pack("<HHIIIQQII", 4, 0, 40, run_id, 0, 0, 0, 0, 0)]


def batch_of(memory, data):
    """The bytes of a batch: its descriptor with what arrays it has, and the arrays."""
    segment, size, offset = struct.unpack_from("<IIQ", data, 40)
    head = memory[segment][offset:offset + size]
    arrays, names = {}, struct.unpack_from("<I", head, 12)[0]
    for i in range(names):
        at, of, dtype, dims, flags, name_at, length, _, *dim = struct.unpack_from("<QIBBHIIQ4Q", head, 64 + 64 * i)
        size = (1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8)[dtype]
        for d in dim[:dims]:
            size *= d
        content = bytes(memory[of][at:at + size])
        arrays[head[name_at:name_at + length].decode()] = [dtype, dim[:dims], hashlib.sha256(content).hexdigest()]
    return arrays


def epoch(khop, folder):
    """What a server says of an epoch, its segments as they are at the end, and the arrays of each batch."""
    said, memory, batches = [], {}, []
    for data, fd in serve(khop, folder, consumer()):
        kind = struct.unpack_from("<H", data)[0]
        said.append(data)
        if kind == SEGMENT:
            number, = struct.unpack_from("<I", data, 8)
            memory[number] = bytearray(os.fstat(fd).st_size)
            fds = {number: fd}
        elif kind == BATCH:
            for number, fd in fds.items():
                memory[number][:] = os.pread(fd, len(memory[number]), 0)
            batches.append(batch_of(memory, data))
    return said, memory, batches


def encode(content):
    return base64.b64encode(zlib.compress(bytes(content), 9)).decode()


def decode(text):
    return zlib.decompress(base64.b64decode(text))


def record(khop, folder, alone=False):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    for name, options in DATASETS.items():
        assert run(khop, ["generate", options[0], name, *options[1:]], folder) is not None
    golden = {"digests": {d: {o: digests(khop, folder, d, o) for o in options} for d, options in BATCHES.items()},
              "json": {}}
    for name in () if alone else OUTPUTS:
        golden["json"][name] = output(khop, folder, name)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    if not alone:
        (folder / "python.json").write_text(json.dumps(python_names(), sort_keys=True) + "\n")
        said, memory, batches = epoch(khop, folder)
        (folder / "feed.json").write_text(json.dumps({
            "consumer": [encode(m) for m in consumer()], "server": [encode(m) for m in said],
            "memory": {n: encode(m) for n, m in memory.items()}, "batches": batches}) + "\n")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    (folder / "SHA256SUMS").write_text("".join(
        f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(folder)}\n" for p in files))


if __name__ == "__main__":
    record(os.path.abspath(sys.argv[1]), sys.argv[2], "datasets" in sys.argv[3:])
