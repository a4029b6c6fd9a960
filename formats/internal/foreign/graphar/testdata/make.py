"""Writes typed: a graph of GraphAr in Parquet, whose properties have each type and lack some values, by pyarrow.

Run it in this folder. Chunk 1 of the vertices states no statistics, so that nobody knows what is missing but by looking.
"""
import datetime
import pathlib
import struct

import pyarrow as pa
import pyarrow.parquet as pq

TYPES = {"yes": ("bool", pa.bool_(), [None, None, False]), "i": ("int32", pa.int32(), [1, 2, 3]),
         "few": ("int64", pa.int64(), [None, 1 << 60, None]), "narrow": ("int64", pa.int32(), [7, 8, 9]),
         "f": ("float", pa.float32(), [.5, None, 1.5]), "d": ("double", pa.float64(), [.1, .2, .3]),
         "s": ("string", pa.string(), ["a", None, "c"]), "large": ("string", pa.large_string(), ["x", "y", "z"]),
         "day": ("date", pa.date32(), [datetime.date(2001, 2, 3), None, datetime.date(1969, 12, 31)]),
         "at": ("timestamp", pa.timestamp("us"), [1, None, -1]),
         "l": ("list<float>", pa.list_(pa.float32()), [[1, 2], [3, 4], [5, 6]]),
         "words": ("list<string>", pa.list_(pa.string()), [["a"], [], ["b", "c"]]),
         "uneven": ("list<double>", pa.list_(pa.float64()), [[1, 2], [3], [4, 5]]),
         "ragged": ("list<int64>", pa.list_(pa.int64()), [[], [1], [2, 3]])}
to = pathlib.Path("typed")


def write(name, columns, **options):
    (to / name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), to / name, **options)


def count(name, n):
    (to / name).write_bytes(struct.pack("<q", n))


for k, (lo, hi) in enumerate([(0, 2), (2, 3)]):
    write(f"v/all/chunk{k}", {"_graphArVertexIndex": pa.array(range(lo, hi), pa.int64()),
                              **{name: pa.array(v[lo:hi], t) for name, (_, t, v) in TYPES.items()}},
          write_statistics=k == 0)
count("v/vertex_count", 3)
write("e/ordered_by_dest/adj_list/part0/chunk0",
      {"_graphArSrcIndex": pa.array([2, 0], pa.int64()), "_graphArDstIndex": pa.array([0, 1], pa.int64())})
write("e/ordered_by_dest/w_n/part0/chunk0",
      {"w": pa.array([.5, None], pa.float64()), "n": pa.array([None, 4], pa.int32())})
for k in range(2):
    write(f"e/ordered_by_dest/offset/chunk{k}", {"_graphArOffset": pa.array([[0, 1, 2], [0, 0]][k], pa.int32())})
    count(f"e/ordered_by_dest/edge_count{k}", 2 - 2 * k)
properties = "".join(f"- {{name: {name}, data_type: {t}}}\n" for name, (t, _, _) in TYPES.items())
(to / "g.graph.yml").write_text("vertices: [v.yml]\nedges: [e.yml]\nversion: gar/v1\n")
(to / "v.yml").write_text(
    "type: v\nchunk_size: 2\nproperty_groups:\n- file_type: parquet\n  prefix: all/\n  properties:\n" +
    "".join("  " + line + "\n" for line in properties.splitlines()))
(to / "e.yml").write_text(
    "src_type: v\nedge_type: e\ndst_type: v\nchunk_size: 9\nsrc_chunk_size: 2\ndst_chunk_size: 2\ndirected: true\n"
    "prefix: e/\nadj_lists: [{ordered: true, aligned_by: dst, file_type: parquet}]\nproperty_groups:\n"
    "- {file_type: parquet, properties: [{name: w, data_type: double}, {name: n, data_type: int32}]}\n")
