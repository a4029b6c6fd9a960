"""Datasets are what docs/format.md says: the manifest, every checksum, the place of every body, the rules of the
graph."""
import json
import re

import numpy as np
import pytest
import xxhash

import oracle
from conftest import COMMITTED, GENERATED, REAL

each = pytest.mark.parametrize("name", [*COMMITTED, *GENERATED, *REAL])


def parts(content):
    arrays = [*content["columns"], *(s for split in content["splits"] for s in split["sets"])]
    return [(a, p) for a in arrays for p in a["parts"]]


@each
def test_manifest(name, dataset):
    text = (dataset(name) / "dataset.json").read_bytes()
    manifest = json.loads(text)
    assert manifest["format"][0] == 1 and manifest["requires"] == []
    before = text[:text.index(b'  "checksum": "')]
    assert text == before + b'  "checksum": "%s"\n}\n' % xxhash.xxh3_64_hexdigest(before).encode()
    content = re.search(rb'\n  "content": (\{.*\n  \}),\n$', before, re.DOTALL)[1]
    assert json.loads(content) == manifest["content"]
    assert manifest["id"] == xxhash.xxh3_128_hexdigest(content)


@each
def test_every_byte_of_every_file_is_under_its_checksum(name, dataset):
    content = json.loads((dataset(name) / "dataset.json").read_text())["content"]
    for _, p in parts(content):
        file = np.fromfile(dataset(name) / p["path"], np.uint8)
        begin, end, chunk = p["body_offset"], p["body_offset"] + p["bytes"], content["chunk_bytes"]
        assert len(file) == p["file_bytes"], p["path"]
        head = xxhash.xxh3_64(file[:begin])
        head.update(file[end:])
        assert head.hexdigest() == p["head_xxh3"], p["path"]
        assert [
            xxhash.xxh3_64_hexdigest(file[i:min(i + chunk, end)]) for i in range(begin, end, chunk)] == p["chunk_xxh3"]


@each
def test_bodies_lie_where_the_document_says(name, dataset):
    content = json.loads((dataset(name) / "dataset.json").read_text())["content"]
    for array, p in parts(content):
        file = np.fromfile(dataset(name) / p["path"], np.uint8)
        first = 8 * (p["rows"] + 1) if array["dtype"] == "utf8" else p["bytes"]  # the first buffer
        align = 65536 if first >= 1 << 20 else 128
        assert p["body_offset"] % align == 0, p["path"]
        word = lambda at: int.from_bytes(file[at:at + 4].tobytes(), "little")
        assert file[:8].tobytes() == b"ARROW1\0\0" and file[-6:].tobytes() == b"ARROW1" and word(8) == 0xFFFFFFFF
        batch = 16 + word(12)
        assert word(batch) == 0xFFFFFFFF and batch + 8 + word(batch + 4) == p["body_offset"], p["path"]
        stop = p["body_offset"] + -(-p["bytes"] // 64) * 64
        assert not file[p["body_offset"] + p["bytes"]:stop].any() and word(stop) == 0xFFFFFFFF and word(stop + 4) == 0


@each
def test_edges_are_in_order_and_of_their_types(name, dataset):
    path = dataset(name)
    g, content = oracle.load(path)
    arrays = {(c["owner"], c["name"]): oracle.column(path, c, c["shape"]) for c in content["columns"]
              if c["dtype"] not in ("utf8", "bfloat16")}
    indptr, indices = arrays["graph", "indptr"], arrays["graph", "indices"]
    edges = len(indices)
    assert indptr.dtype == np.int64 and len(indptr) == g.offset[-1] + 1 and indptr[0] == 0 and indptr[-1] == edges
    assert (np.diff(indptr) >= 0).all() and indices.dtype == (np.int32 if g.offset[-1] < 2**31 else np.int64)
    assert (("graph", "type") in arrays) == (len(g.edge_types) > 1)
    kind = arrays.get(("graph", "type"), np.zeros(edges, np.uint8)).astype(np.int64)
    assert np.bincount(kind, minlength=len(g.edge_types)).tolist() == [e["count"] for e in content["edge_types"]]
    dst, source, target = np.repeat(np.arange(g.offset[-1]),
                                    np.diff(indptr)), np.array(g.source)[kind], np.array(g.target)[kind]
    assert ((g.offset[source] <= indices) & (indices < g.offset[source + 1])).all()
    assert ((g.offset[target] <= dst) & (dst < g.offset[target + 1])).all()
    by_time = np.array([e["order"] == "time" for e in content["edge_types"]])[kind]
    time = np.where(by_time, arrays.get(("edges", "time"), np.zeros(edges)), 0)
    number = arrays.get(("graph", "edge_id"), np.arange(edges))
    assert np.array_equal(np.lexsort((number, indices, time, kind, dst)), np.arange(edges))
