"""khop convert keeps --max-memory with sources of every kind, however large they are.

KHOP_READER_EDGES is how many edges each source has, 60,000 without it; with 16,000,000 sources are several times larger
than the 64 MiB that each conversion may take. BV graphs and Planetoid's pickles have no writer here.
"""
import gzip
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import threading
import types
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

EDGES = int(os.environ.get("KHOP_READER_EDGES", 60_000))
NODES = max(EDGES // 80, 100)
LIMIT = 64 << 20


def pairs():
    rng = np.random.default_rng(5)
    return rng.integers(0, NODES, (2, EDGES)), rng.integers(0, 1000, EDGES)


def text(path, columns, sep=" ", header=False):
    table = pa.table({str(i): c for i, c in enumerate(columns)})
    with pa.OSFile(str(path), "wb") as f:
        pa.csv.write_csv(table, f, pa.csv.WriteOptions(include_header=header, delimiter=sep, quoting_style="none"))
    return path


def edgelist(d):
    (src, dst), time = pairs()
    return text(d / "edges.txt", [src, dst, time]), ["--columns", "src,dst,time"]


def edgelist_gz(d):
    edgelist(d)
    with open(d / "edges.txt", "rb") as f, gzip.open(d / "e.txt.gz", "wb", 1) as z:
        while b := f.read(1 << 22):
            z.write(b)
    return d / "e.txt.gz", ["--columns", "src,dst,time"]


def archive(d):
    edgelist(d)
    with tarfile.open(d / "e.tar", "w") as t:
        t.add(d / "edges.txt", "edges.txt")
    return d / "e.tar", ["--columns", "src,dst,time"]


def npy(d):
    ends, time = pairs()
    (d / "x").mkdir()
    np.save(d / "x" / "edge_index.npy", ends)
    np.save(d / "x" / "edge_time.npy", time)
    return d / "x", []


def npy_pairs(d):
    np.save(d / "e.npy", np.ascontiguousarray(pairs()[0].T.astype(np.int32)))
    return d / "e.npy", []


def npz(d):
    ends, time = pairs()
    np.savez_compressed(d / "e.npz", edge_index=ends, edge_time=time)
    return d / "e.npz", []


def csr():
    (src, dst), time = pairs()
    order = np.argsort(src, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=NODES))])
    return indptr, dst[order], time[order].astype(np.float32) + 1


def npz_csr(d):
    indptr, indices, data = csr()
    np.savez(d / "e.npz", adj_indptr=indptr, adj_indices=indices.astype(np.int32), adj_data=data,
             adj_shape=(NODES, NODES))
    return d / "e.npz", []


def mtx(d):
    (src, dst), _ = pairs()
    body = text(d / "body", [src + 1, dst + 1])
    with open(d / "e.mtx", "wb") as f:
        f.write(b"%%%%MatrixMarket matrix coordinate pattern general\n%d %d %d\n" % (NODES, NODES, EDGES))
        f.write(body.read_bytes())
    return d / "e.mtx", []


def metis(d):
    n, step = EDGES // 8, (1, 2, 3, 5)
    i = np.arange(n)[:, None]
    around = np.concatenate([(i + s) % n for s in step] + [(i - s) % n for s in step], axis=1) + 1
    body = text(d / "body", list(around.T))
    (d / "e.graph").write_bytes(b"%d %d\n" % (n, 4 * n) + body.read_bytes())
    return d / "e.graph", []


def triples(d):
    (head, tail), rel = pairs()
    (d / "x").mkdir()
    names = np.array([f"/m/{i:06d}" for i in range(2000)])
    text(d / "x" / "train.txt",
         [names[head % 2000], np.array([f"/r/{i}" for i in range(1000)])[rel], names[tail % 2000]], "\t")
    for name in ("valid", "test"):
        (d / "x" / f"{name}.txt").write_text("/m/000001\t/r/1\t/m/000002\n")
    return d / "x", []


def ogb(d):
    (src, dst), _ = pairs()
    (d / "raw").mkdir()
    body = text(d / "body", [src, dst], ",")
    for name, b in (("edge", body.read_bytes()), ("num-node-list", b"%d\n" % NODES),
                    ("num-edge-list", b"%d\n" % EDGES)):
        with gzip.open(d / "raw" / f"{name}.csv.gz", "wb", 1) as z:
            z.write(b)
    body.unlink()
    return d, []


def musae(d):
    (src, dst), _ = pairs()
    (d / "x").mkdir()
    text(d / "x" / "a_edges.csv", [src % 500, dst % 500], ",")
    edges = d / "x" / "a_edges.csv"
    edges.write_bytes(b"id_1,id_2\n" + edges.read_bytes())
    (d / "x" / "a_features.json").write_text(json.dumps({str(i): [i % 7] for i in range(500)}))
    (d / "x" / "a_target.csv").write_text(
        "id,page_name,page_type\n" + "".join(f"{i},n{i},k{i % 3}\n" for i in range(500)))
    return d / "x", []


def table(d, name, write):
    (src, dst), time = pairs()
    write(pa.table({"src": src, "dst": dst, "time": time}), str(d / name))
    (d / "graph.yaml").write_text(f"edges:\n  cites: {{file: {name}, src: src, dst: dst, time: time}}\n")
    return d / "graph.yaml", []


def ipc(t, path):
    with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, t.schema) as w:
        w.write_table(t, EDGES)  # one batch


def torch(d):
    """A dictionary as torch.save writes it, without torch."""
    ends, time = pairs()
    modules = {n: types.ModuleType(n) for n in ("torch", "torch._utils")}
    storage = type("LongStorage", (), {"__module__": "torch"})
    modules["torch"].LongStorage = storage

    def _rebuild_tensor_v2():
        pass

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    modules["torch._utils"]._rebuild_tensor_v2 = _rebuild_tensor_v2
    kept = []

    class Stored:
        def __init__(self, key, size):
            self.key, self.size = key, size

    class Tensor:
        def __init__(self, a):
            kept.append(a)
            self.args = (Stored(str(len(kept) - 1), a.size), 0, a.shape, tuple(s // 8 for s in a.strides), False, None)

        def __reduce__(self):
            return _rebuild_tensor_v2, self.args

    class Pickler(pickle.Pickler):
        def persistent_id(self, o):
            return ("storage", storage, o.key, "cpu", o.size) if isinstance(o, Stored) else None

    before = {n: sys.modules.get(n) for n in modules}
    sys.modules.update(modules)
    try:
        out = io.BytesIO()
        Pickler(out, 2).dump({"edge_index": Tensor(ends), "edge_time": Tensor(time), "num_nodes": NODES})
    finally:
        for n, m in before.items():
            sys.modules.pop(n) if m is None else sys.modules.__setitem__(n, m)
    with zipfile.ZipFile(d / "e.pt", "w") as z:
        z.writestr("e/data.pkl", out.getvalue())
        for i, a in enumerate(kept):
            z.writestr(f"e/data/{i}", a.tobytes())
    return d / "e.pt", []


def dgl(d):
    """A graph as dgl.save_graphs writes it, without dgl."""
    (src, dst), time = pairs()

    def u64(*v):
        return struct.pack(f"<{len(v)}Q", *v)

    def array(a):
        kind = {"i": 0, "f": 2}[a.dtype.kind]
        head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, a.ndim, kind, 8 * a.itemsize, 1)
        return head + u64(*a.shape, a.nbytes) + a.tobytes()

    def name(s):
        return u64(len(s)) + s.encode()

    ids = lambda *v: array(np.array(v, np.int64))
    types_ = u64(0xDD3C5FFE20046ABF, 0xDD6CD31205DFF127, 1, 1) + ids(0, 1) + ids(0) + ids(0) + b"\0"
    with open(d / "e.bin", "wb") as f:
        f.write((u64(0xDD2E4FF046B4A13F, 2, 2, 1)).ljust(4096, b"\0") + u64(4112, 0))
        f.write(u64(0xDD589FBE35224ABF) + types_ + u64(1, 0xDD2E60F0F6B4A127, 1 << 32 | 1, 1 << 32 | 7) + types_)
        f.write(u64(0xDD61FFD305DFF127, NODES, NODES) + array(src) + array(dst) + ids() + b"\0\0")
        f.write(u64(1, NODES, 1, 0, 1, 1) + name("time") + array(time) + u64(1) + name("_N") + u64(1) + name("_E"))
    return d / "e.bin", []


def graphbolt(d):
    ends, _ = pairs()
    (d / "edges").mkdir()
    np.save(d / "edges" / "e.npy", ends)
    (d / "metadata.yaml").write_text(f"dataset_name: x\ngraph:\n  nodes: [{{num: {NODES}}}]\n"
                                     "  edges: [{format: numpy, path: edges/e.npy}]\nfeature_data: []\ntasks: []\n")
    return d, []


def lsc(d):
    ends, _ = pairs()
    (d / "paper").mkdir()
    (d / "paper__cites__paper").mkdir()
    np.save(d / "paper__cites__paper" / "edge_index.npy", ends)
    np.save(d / "paper" / "node_feat.npy", np.zeros((NODES, 64), np.float16))
    return d, []


MAKERS = {
    f.__name__: f for f in (edgelist, edgelist_gz, archive, npy, npy_pairs, npz, npz_csr, mtx, metis, triples, ogb,
                                  musae, torch, dgl, graphbolt, lsc)}
MAKERS |= {"parquet": lambda d: table(d, "e.parquet", pq.write_table), "arrow": lambda d: table(d, "e.arrow", ipc),
           "csv": lambda d: table(d, "e.csv", pa.csv.write_csv)}


def peak_of(process):
    """The most anonymous and shared memory that a process has, polled until it ends."""
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as f:
                now = sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon", "RssShmem")))
        except (FileNotFoundError, ProcessLookupError):
            break
        peak = max(peak, 1024 * now)
        stop.wait(0.005)
    return peak


stop = threading.Event()  # never set: a pause


@pytest.mark.parametrize("kind", MAKERS)
def test_a_reader_keeps_the_limit(khop, tmp_path, kind):
    (tmp_path / "source").mkdir()
    source, options = MAKERS[kind](tmp_path / "source")
    command = [khop, "convert", source, tmp_path / "out", "--max-memory", "64MiB", "--json", *options]
    with open(tmp_path / "stdout", "w+") as out, open(tmp_path / "stderr", "w+") as err:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err)
        peak = peak_of(process)
        process.wait()
        err.seek(0)
        assert process.returncode == 0, err.read()
        out.seek(0)
        result = json.load(out)
    size = sum(f.stat().st_size for f in (tmp_path / "source").rglob("*") if f.is_file())
    print(f"\n{kind}: {size / 1e6:.0f} MB of source, {peak / 1e6:.1f} MB at most, {result['seconds']:.1f} s")
    assert result["source_edges"] in (EDGES, EDGES // 2)  # of METIS each edge once
    assert peak <= 1.1 * LIMIT, f"{peak} bytes, {result['memory_peak']} of them counted"
