"""khop convert holds of each graph of Apache's graphar-testing what pyarrow reads of its files, or says why not.

KHOP_GRAPHAR  folder of the repository; the tests skip without it
"""
import collections
import json
import os
import pathlib
import shutil
import struct
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
import yaml

import oracle

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1, "d": 86400 * 10**9}
ORDERS = ["ordered_by_dest", "ordered_by_source", "unordered_by_dest", "unordered_by_source"]
REFUSED = {  # graphs that are not converted as they lie there, and a part of the error
    "ldbc/ldbc.graph.yml": "vertex_count: there is no such file",  # its data is not in the repository
    "ldbc/parquet/ldbc.graph.yml": "place/vertex_count: there is no such file",
    "ldbc_sample/json/LdbcSample.graph.yml": 'files of the type "json", and parquet and csv are read',
    "ldbc_sample/orc/ldbc_sample.graph.yml": 'files of the type "orc", and parquet and csv are read',
    "java/ldbc_sample/orc/ldbc_sample.graph.yml": 'files of the type "orc", and parquet and csv are read',
    "transformer/ldbc_sample.graph.yml": "vertex_count: there is no such file",
}


def root():
    if not os.environ.get("KHOP_GRAPHAR"):
        pytest.skip("KHOP_GRAPHAR is not set: no graphar-testing")
    return pathlib.Path(os.environ["KHOP_GRAPHAR"])


# --- the files, as pyarrow reads them --------------------------------------------------------------------------------

def table(path, kind):
    """A file, or the files of a folder."""
    if path.is_dir():
        return pa.concat_tables([table(p, kind) for p in sorted(path.iterdir())])
    if kind == "parquet":
        return pq.ParquetFile(path).read()
    if kind == "orc":
        return pa.orc.ORCFile(str(path)).read()
    if kind == "json":
        return pa.json.read_json(str(path))
    return pa.csv.read_csv(path)


def count(path):
    return struct.unpack("<q", path.read_bytes())[0]


def prefix(group):
    return group.get("prefix") or "_".join(p["name"] for p in group["properties"]) + "/"


class Graph:
    """A graph's YAMLs, and where its data lies."""

    def __init__(self, path):
        self.path, self.folder = path, path.parent
        self.info = yaml.safe_load(path.read_text())
        read = lambda name: yaml.safe_load((self.folder / name).read_text())
        self.vertices, self.edges = [read(v) for v in self.info["vertices"]], [read(e) for e in self.info["edges"]]

    def vertex(self, v):
        """The columns of a vertex type, and how many rows there are."""
        folder, n, columns = self.folder / v["prefix"], count(self.folder / v["prefix"] / "vertex_count"), {}
        for g in v.get("property_groups", []):
            parts = [table(folder / prefix(g) / f"chunk{i}", g["file_type"]) for i in range(-(-n // v["chunk_size"]))]
            for p in g["properties"]:
                columns[p["name"]] = [x for t in parts for x in t.column(p["name"]).to_pylist()], p["data_type"], parts
        return n, columns

    def list(self, e, order):
        """An adjacency list of an edge type; None if it has no such one."""
        for l in e["adj_lists"]:
            name = f"{'' if l['ordered'] else 'un'}ordered_by_{'source' if l['aligned_by'] == 'src' else 'dest'}"
            if name == order:
                return l, self.folder / e["prefix"] / (l.get("prefix") or name)
        return None

    def edge(self, e, order):
        """The edges of a type, with their properties: a multiset."""
        l, folder = self.list(e, order)
        rows, names = collections.Counter(), ["src", "dst"]
        for k in range(len(list(folder.glob("edge_count*")))):
            n = count(folder / f"edge_count{k}")
            for c in range(-(-n // e["chunk_size"])):
                t = table(folder / "adj_list" / f"part{k}" / f"chunk{c}", l["file_type"])
                columns = [t.column("_graphArSrcIndex").to_pylist(), t.column("_graphArDstIndex").to_pylist()]
                for g in e.get("property_groups", []):
                    more = table(folder / prefix(g) / f"part{k}" / f"chunk{c}", g["file_type"])
                    for p in g["properties"]:
                        if p["data_type"] != "string":
                            columns.append([plain(x) for x in more.column(p["name"]).to_pylist()])
                            names += [p["name"]] if p["name"] not in names else []
                rows.update(zip(*columns))
        return names, rows


def plain(x):
    """A value as it is compared: times in nanoseconds."""
    if hasattr(x, "isoformat"):
        return int(np.datetime64(x, "us").astype(int)) * 1000
    return x


# --- the dataset, as pyarrow reads its files --------------------------------------------------------------------------

class Dataset:
    def __init__(self, path):
        self.path = path
        self.content = json.loads((path / "dataset.json").read_text())["content"]
        self.indptr, self.indices, self.type = (self.array("graph", x) for x in ("indptr", "indices", "type"))

    def array(self, owner, name):
        """An array of numbers; None if there is none."""
        found = [c for c in self.content["columns"] if c["owner"] == owner and c["name"] == name]
        return oracle.column(self.path, found[0], found[0]["shape"]) if found else None

    def columns(self, owner):
        """The columns of nodes or of edges, by name: values, and the unit of times."""
        found = {}
        for c in self.content["columns"]:
            if c["owner"] != owner:
                continue
            if c["dtype"] == "utf8":
                (part,) = c["parts"]
                found[c["name"]] = pa.ipc.open_file(self.path / part["path"]).get_batch(0).column(0).to_pylist(), ""
            else:
                found[c["name"]] = self.array(owner, c["name"]), c.get("unit", "")
        return found

    def edges(self, number, names):
        """The edges of a type, with columns: a multiset."""
        types, nodes = self.content["edge_types"], [n["name"] for n in self.content["node_types"]]
        first = np.concatenate([[0], np.cumsum([n["count"] for n in self.content["node_types"]])])
        src = self.indices.astype(np.int64)
        dst = np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))
        own = slice(None) if self.type is None else self.type == number
        t, columns = types[number], self.columns("edges")
        lists = [src[own] - first[nodes.index(t["source"])], dst[own] - first[nodes.index(t["target"])]]
        for name in names[2:]:
            values, unit = columns[name]
            lists.append(np.asarray(values)[own] * (NS[unit] if unit else 1))
        return collections.Counter(zip(*(x.tolist() for x in lists)))


def same(got, unit, want):
    """Whether the rows of a column are the values that pyarrow reads."""
    if isinstance(got, list):
        return got == [x or "" for x in want]
    if got.ndim > 1:
        return got.tolist() == want
    if unit:
        return (got * NS[unit]).tolist() == [plain(x) for x in want]
    gaps = [x is None for x in want]
    return all(np.isnan(g) if gap else g == w for g, gap, w in zip(got.tolist(), gaps, want)) and len(got) == len(want)


def convert(khop, source, target, *options):
    p = subprocess.run([khop, "convert", source, target, "--force", *options], capture_output=True, text=True,
                       timeout=60)
    assert p.returncode in (0, 1), p.stderr
    return p.returncode, p.stderr


def copy(graph, order, to):
    """The graph with one adjacency list of each edge type; None if a type has no such list."""
    to.mkdir()
    for part in graph.folder.iterdir():
        if part.name != graph.path.name and part.name not in graph.info["edges"]:
            (to / part.name).symlink_to(part)
    for name, e in zip(graph.info["edges"], graph.edges):
        found = graph.list(e, order)
        if not found or not found[1].is_dir():
            shutil.rmtree(to)
            return None
        (to / name).write_text(yaml.safe_dump({**e, "adj_lists": [found[0]]}))
    (to / graph.path.name).write_text(yaml.safe_dump(graph.info))
    return to / graph.path.name


def compare(graph, order, dataset):
    """Compares all that both hold."""
    for i, v in enumerate(graph.vertices):
        n, columns = graph.vertex(v)
        assert dataset.content["node_types"][i] == {"name": v.get("type") or v["label"], "count": n}
        stored = dataset.columns(f"nodes/{i}")
        for name, (want, kind, _) in columns.items():
            assert name in stored, f"{name} is not stored"
            assert same(*stored[name], want), f"{v['type']}.{name}: {kind}"
        assert set(stored) == set(columns)
    total = 0
    for i, e in enumerate(graph.edges):
        names, want = graph.edge(e, order)
        assert dataset.edges(i, names) == want, f"{e} {order}"
        total += want.total()
        assert dataset.content["edge_types"][i]["relation"] == e.get("edge_type", e.get("edge_label"))
    assert total == len(dataset.indices)


def samples():
    folder = os.environ.get("KHOP_GRAPHAR")
    paths = pathlib.Path(folder).rglob("*.graph.yml") if folder else ()
    return sorted(str(p.relative_to(folder)) for p in paths) or [""]


@pytest.mark.parametrize("name", samples())
def test_samples(khop, tmp_path, name, record_property):
    path = root() / name
    code, says = convert(khop, path, tmp_path / "d", "--directed")
    if name in REFUSED:
        assert code == 1 and REFUSED[name] in says, says
        record_property("refused", REFUSED[name])
        return
    assert code == 0, says
    graph, compared = Graph(path), []
    for order in ORDERS:
        alone = copy(graph, order, tmp_path / order)
        if alone is None:
            continue
        code, says = convert(khop, alone, tmp_path / "d", "--directed")
        assert code == 0, f"{order}: {says}"
        compare(graph, order, Dataset(tmp_path / "d"))
        compared.append(order)
    print(name, "equal:", compared)
    assert compared


def test_undirected_edges_go_both_ways(khop, tmp_path):
    path = root() / "ldbc_sample/parquet/ldbc_sample.graph.yml"
    code, says = convert(khop, path, tmp_path / "d")
    assert code == 0 and "6626 edges go both ways" in says, says
    _, want = Graph(path).edge(Graph(path).edges[0], "ordered_by_source")
    both = want + collections.Counter({(b, a): n for (a, b), n in want.items()})
    assert Dataset(tmp_path / "d").edges(0, ["src", "dst"]) == both


def test_labels_and_lists_of_texts(khop, tmp_path):
    """The vertices of ldbc/parquet, whose edges are not in the repository, with an edge of our own."""
    folder, to = root() / "ldbc/parquet", tmp_path / "g"
    (to / "e/ordered_by_source/adj_list/part0").mkdir(parents=True)
    for name in ("vertex", "organisation.vertex.yml", "person.vertex.yml"):
        (to / name).symlink_to(folder / name)
    (to / "e/ordered_by_source/adj_list/part0/chunk0").write_text("_graphArSrcIndex,_graphArDstIndex\n1,1527\n")
    for k in range(2):
        (to / f"e/ordered_by_source/edge_count{k}").write_bytes(struct.pack("<q", 1 - k))
    edge = {"src_type": "organisation", "edge_type": "knows", "dst_type": "person", "chunk_size": 8, "prefix": "e/",
            "src_chunk_size": 4096, "dst_chunk_size": 1024,
            "adj_lists": [{"ordered": True, "aligned_by": "src", "file_type": "csv"}]}
    (to / "e.yml").write_text(yaml.safe_dump(edge))
    (to / "g.graph.yml").write_text("vertices: [organisation.vertex.yml, person.vertex.yml]\nedges: [e.yml]\n")
    code, says = convert(khop, to / "g.graph.yml", tmp_path / "d")
    assert code == 0 and "person.vertex.yml: not stored, since they are neither numbers nor texts: emails" in says, says
    graph, dataset = Graph(to / "g.graph.yml"), Dataset(tmp_path / "d")
    for i, v in enumerate(graph.vertices):
        n, columns = graph.vertex(v)
        columns.pop("emails", None)
        for label in v.get("labels", []):
            chunks = [table(to / v["prefix"] / f"labels/chunk{k}", "parquet") for k in range(-(-n // v["chunk_size"]))]
            columns[label] = [int(x) for t in chunks for x in t.column(label).to_pylist()], "bool", chunks
        stored = dataset.columns(f"nodes/{i}")
        assert set(stored) == set(columns)
        for name, (want, kind, _) in columns.items():
            assert same(*stored[name], want), f"{name}: {kind}"
    assert dataset.edges(0, ["src", "dst"]) == {(1, 1527): 1}


ARROW = {"bool": pa.bool_(), "int32": pa.int32(), "int64": pa.int64(), "float": pa.float32(), "double": pa.float64(),
         "string": pa.string()}


def kept_as(field, kind):
    """Whether a column of a file has the type that a YAML names."""
    if kind.startswith("list<"):
        return pa.types.is_list(field.type) and field.type.value_type == ARROW[kind[5:-1]]
    return pa.types.is_timestamp(field.type) if kind == "timestamp" else field.type == ARROW[kind]


def check_offsets(graph, e):
    """Offsets say where the edges of each vertex begin, and edges are in their order."""
    (l,), folder = e["adj_lists"], graph.folder / e["prefix"] / "ordered_by_dest"
    n = count(folder / "vertex_count")
    for k in range(-(-n // e["dst_chunk_size"])):
        begin = table(folder / f"offset/chunk{k}", l["file_type"]).column("_graphArOffset").to_pylist()
        chunks = [table(folder / f"adj_list/part{k}/chunk{c}", l["file_type"])
                  for c in range(-(-count(folder / f"edge_count{k}") // e["chunk_size"]))]
        dst = [v - k * e["dst_chunk_size"] for t in chunks for v in t.column("_graphArDstIndex").to_pylist()]
        assert dst == [v for v in range(len(begin) - 1) for _ in range(begin[v + 1] - begin[v])]
        assert len(begin) == min(e["dst_chunk_size"], n - k * e["dst_chunk_size"]) + 1


def test_exports_are_graphs_of_graphar(khop, tmp_path):
    """Of a dataset with texts, lists, times and two types of nodes, which pyarrow reads again."""
    rng = np.random.default_rng(5)
    users = {"name": [f"u{i}" for i in range(40)], "age": rng.integers(0, 99, 40), "x": list(rng.random((40, 3))),
             "since": rng.integers(-999, 999, 40).astype("datetime64[D]")}
    pq.write_table(pa.table(users), tmp_path / "user.parquet")
    pq.write_table(pa.table({"src": [f"u{i}" for i in rng.integers(0, 40, 300)], "dst": rng.integers(0, 9, 300),
                             "time": rng.integers(0, 99, 300).astype("datetime64[s]").astype("datetime64[ms]"),
                             "weight": rng.random(300)}), tmp_path / "buys.parquet")
    (tmp_path / "m.yaml").write_text("nodes:\n  user: {file: user.parquet, id: name}\n  item: {count: 9}\n"
                                     "edges: {'user:buys:item': buys.parquet}\n")
    assert convert(khop, tmp_path / "m.yaml", tmp_path / "d")[0] == 0
    subprocess.run([khop, "export", tmp_path / "d", tmp_path / "g", "--to", "graphar"], check=True)
    graph, dataset = Graph(tmp_path / "g/d.graph.yml"), Dataset(tmp_path / "d")
    compare(graph, "ordered_by_dest", dataset)
    for v in graph.vertices:
        for name, (_, kind, parts) in graph.vertex(v)[1].items():
            assert kept_as(parts[0].schema.field(name), kind), f"{name}: {parts[0].schema.field(name)}, {kind}"
            assert parts[0].column("_graphArVertexIndex").to_pylist() == list(range(len(parts[0])))
    for e in graph.edges:
        check_offsets(graph, e)
    assert convert(khop, tmp_path / "g", tmp_path / "again")[0] == 0
    assert json.loads((tmp_path / "again/dataset.json").read_text())["id"] == json.loads(
        (tmp_path / "d/dataset.json").read_text())["id"]
