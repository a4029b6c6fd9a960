"""khop convert reads every file of Apache's parquet-testing and arrow-testing as pyarrow does, or refuses it, soon.

KHOP_CORPORA  folder of both repositories; the test skips without it
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle

SECONDS = 30
NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "d": 86400 * 10**9}
DAMAGED = ("fuzz", "crash", "corrupt-checksum",  # pyarrow reads some of what is damaged
           "repeated_no_annotation")  # which says that it has no rows
BROKEN = ("panic", "internal error", "runtime error", "goroutine", "nil pointer")  # in what a user reads


def files(root):
    """The tables of the corpora, by what they begin with. A repository may be a link."""
    for path in sorted(path for repository in pathlib.Path(root).iterdir() for path in repository.rglob("*")):
        if path.is_file() and ".git" not in path.parts:
            head = path.open("rb").read(8)
            if head[:4] in (b"PAR1", b"PARE", b"\xff\xff\xff\xff") or head[:6] == b"ARROW1":
                yield path
            elif "arrow-ipc" in str(path) and path.suffix not in (".gz", ".md", ".csv"):
                yield path


def table(path):
    """What pyarrow reads of a file; None if it reads nothing."""
    try:
        if path.open("rb").read(4) == b"PAR1":
            t = pq.read_table(path)
        else:
            data = pa.py_buffer(path.read_bytes())
            t = (pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream)(data).read_all()
        try:
            t.validate(full=True)
        except pa.ArrowInvalid as e:
            if "does not fit in precision" not in str(e):  # of decimals, which are numbers all the same
                return None
        return t
    except (pa.ArrowException, OSError, ValueError, TypeError, NotImplementedError):
        return None


def convert(khop, folder, mapping):
    """The exit code and messages of a conversion in 64 MB."""
    (folder / "m.yaml").write_text(json.dumps(mapping))
    p = subprocess.run([khop, "convert", folder / "m.yaml", folder / "d", "--force", "--max-memory", "64MB"],
                       capture_output=True, text=True, errors="replace", timeout=SECONDS)
    assert p.returncode in (0, 1), p.stderr
    assert not [w for w in BROKEN if w in p.stderr], p.stderr
    return p.returncode, p.stderr


def plain(c):
    """A column without dictionaries and extensions, in one piece."""
    c = c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c
    if isinstance(c, pa.ChunkedArray):
        c = pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type)
    if isinstance(c, pa.ExtensionArray):
        c = c.storage
    return c.dictionary_decode() if pa.types.is_dictionary(c.type) else c


def same(c, stored, unit):
    """Whether the values of a column are those of pyarrow."""
    t = c.type
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return same(c.flatten(), np.asarray(stored).reshape(-1), unit)
    if isinstance(stored, list):
        if pa.types.is_fixed_size_binary(t):
            return [None if v is None else v.hex() for v in c.to_pylist()] == [
                None if v is None else s.replace("-", "") for s, v in zip(stored, c.to_pylist())]
        text = [v.decode() if isinstance(v, bytes) else v or "" for v in c.to_pylist()]
        return [v or "" for v in stored] == [v or "" for v in text]
    there = np.asarray(c.is_valid())
    stored = np.asarray(stored)
    if len(stored) != len(c):
        return False
    if stored.dtype.kind == "f":
        if pa.types.is_floating(t):
            want = c.cast(pa.float64()).to_numpy(zero_copy_only=False)
        else:
            want = np.array([np.nan if v is None else float(v) for v in c.to_pylist()])
        got = stored.astype(np.float64)
        return bool(np.isnan(got[~there]).all()) and np.allclose(got[there], want[there], 1e-12, 0, equal_nan=True)
    if unit or pa.types.is_temporal(t):
        wide = c.cast(pa.int32()).cast(pa.int64()) if t.bit_width == 32 else c.cast(pa.int64())
        source = "d" if pa.types.is_date32(t) else "ms" if pa.types.is_date64(t) else t.unit
        want = [None if v is None else v * NS[source] for v in wide.to_pylist()]
        step = NS[unit or source]
        return all(w is None or int(s) == w // step for w, s in zip(want, stored.tolist()))
    want = c.cast(pa.uint8()) if pa.types.is_boolean(t) else c
    return bool(there.all()) and stored.tolist() == want.to_pylist()


def column_of(root, name):
    """A column of the nodes that a dataset has, and its unit; None if there is none."""
    content = json.loads((root / "dataset.json").read_text())["content"]
    for c in content["columns"]:
        if c["owner"] == "nodes/0" and c["name"] == name:
            if c["dtype"] == "utf8":
                (part,) = c["parts"]
                return pa.ipc.open_file(root / part["path"]).get_batch(0).column(0).to_pylist(), ""
            return oracle.column(root, c, c["shape"]), c.get("unit", "")
    return None


def look(khop, path, folder):
    """What became of the columns of a file, counted; those with other values by name; why others are refused."""
    found, wrong, whys = collections.Counter(), [], []
    folder.mkdir()
    kind = ".parquet" if path.open("rb").read(3) == b"PAR" else ".arrow"
    (folder / ("t" + kind)).symlink_to(path.resolve())
    (folder / "e.csv").write_text("src,dst\n")  # no ends: a column "id" has the ids of nodes
    nodes = lambda more: {"nodes": {"t": {"file": "t" + kind, **more}},
                          "edges": {"e": {"file": "e.csv", "source": "t", "target": "t"}}}
    code, _ = convert(khop, folder, nodes({"kinds": {}}))
    found["database: " + ("converted" if code == 0 else "refused")] += 1
    t = table(path)
    ends = {} if t is None or not t.column_names else {"src": t.column_names[0], "dst": t.column_names[-1]}
    code, _ = convert(khop, folder, {"edges": {"e": {"file": "t" + kind, **ends}}})
    found["edges: " + ("converted" if code == 0 else "refused")] += 1
    if t is None:
        found["not read by pyarrow"] += 1
        return found, wrong, whys
    for name, column in zip(t.column_names, t.columns):
        if len(column) == 0 or t.column_names.count(name) > 1:
            found["columns without rows, or twice"] += 1
            continue
        code, says = convert(khop, folder, nodes({"columns": [name]}))
        stored = column_of(folder / "d", name) if code == 0 else None
        if stored is None:
            found["columns refused"] += 1
            whys.append(why(says))
            if os.environ.get("KHOP_CORPORA_WHY"):
                print(f"{path.name}: {name}: {column.type}: {says.splitlines()[-1]}")
            assert any(w in path.name for w in DAMAGED) or "damaged" not in says, f"{name}: {column.type}: {says}"
        elif same(plain(column), *stored):
            found["columns equal"] += 1
        else:
            wrong.append(f"{path}: {name}: {column.type}")
    return found, wrong, whys


def became(found, wrong, whys):
    """What became of a file, for who counts files: an outcome and a reason. One that pyarrow does not read, or that has
    no rows, passes: khop has ended well."""
    if wrong:
        return "failed", wrong[0]
    if found["columns refused"] and not found["columns equal"]:
        return "refused", collections.Counter(whys).most_common(1)[0][0]
    return "passed", ""


def why(says):
    """The last line that a user reads, without places and names."""
    line = re.sub(r"^khop: \S+: ", "", says.splitlines()[-1])
    line = re.sub(r'^column "(\\.|[^"])*": ', "", line)
    return re.sub(r'"(\\.|[^"])*"', "a value", re.sub(r"^row \d+: ", "", line))


def test_corpora(khop, tmp_path, record_property):
    if not os.environ.get("KHOP_CORPORA"):
        pytest.skip("KHOP_CORPORA is not set: no parquet-testing and arrow-testing")
    total, wrong, failed = collections.Counter(), [], []
    paths = list(files(os.environ["KHOP_CORPORA"]))
    assert paths, "no tables in KHOP_CORPORA"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        looks = {pool.submit(look, khop, path, tmp_path / str(i)): path for i, path in enumerate(paths)}
        for done in concurrent.futures.as_completed(looks):
            name = looks[done].relative_to(os.environ["KHOP_CORPORA"])
            try:
                found, others, whys = done.result()
                total += found
                wrong += others
                record_property("case", (str(name), *became(found, others, whys)))
            except (AssertionError, subprocess.TimeoutExpired) as e:
                failed.append(f"{looks[done]}: {e}"[:600])
                record_property("case", (str(name), "failed", failed[-1]))
    print(len(paths), "files:", dict(sorted(total.items())))
    assert not wrong + failed, "\n".join(wrong + failed)
