"""Writes the tables of the tests by pyarrow: the same rows as Parquet, as Arrow and as CSV. Run it in this folder."""
import csv

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

rng = np.random.default_rng(13)
papers = pa.table({
    "paper_id": [f"P/{7 * i % 50}" for i in range(50)],
    "emb": pa.FixedSizeListArray.from_arrays(pa.array(rng.integers(-64, 64, 200) / 8, pa.float32()), 4),
    "pages": pa.array(rng.integers(1, 100, 50), pa.int64()),
    "score": pa.array([None if i % 9 == 4 else i / 4 for i in range(50)], pa.float64()),
    "venue": ["KDD", "ICML", "VLDB"] * 16 + ["KDD", "ICML"],
    "split": ["train", "valid", "test", None, "train"] * 10,
    "title": [f"On “graphs”, part {i}" for i in range(50)],
    "main_author": pa.array([None if i % 5 == 0 else int(i * i % 20 * 10 + 5) for i in range(50)], pa.int64()),
})
authors = pa.table({"id": pa.array([10 * i + 5 for i in range(20)], pa.int64()), "h": pa.array(range(20), pa.int64())})
cites = pa.table({
    "citing": [f"P/{i % 50}" for i in range(120)],
    "cited": [f"P/{i * i % 50}" for i in range(120)],
    "when": pa.array([1_000_000_000_000 + i for i in range(120)], pa.int64()),
    "strength": pa.array([i / 8 for i in range(120)], pa.float64()),
})
writes = pa.table({"author": pa.array([10 * (i % 20) + 5 for i in range(60)], pa.int64()),
                   "paper": [f"P/{i * 3 % 50}" for i in range(60)]})


def lists(table):
    """The same with lists of any length, which are all of the same."""
    i = table.schema.get_field_index("emb")
    return table if i < 0 else table.set_column(i, "emb", pa.array(table["emb"].to_pylist(), pa.list_(pa.float32())))


for name, table in {"papers": papers, "authors": authors, "cites": cites, "writes": writes}.items():
    half = table.num_rows // 2
    pq.write_table(lists(table), name + ".snappy.parquet", row_group_size=32, compression="snappy")
    pq.write_table(table, name + ".zstd.parquet", compression="zstd", data_page_version="2.0", use_dictionary=False)
    pq.write_table(table.slice(0, half), name + ".0.parquet", compression="gzip")
    pq.write_table(table.slice(half), name + ".1.parquet", compression="none")
    pa.feather.write_feather(table, name + ".arrow", compression="lz4", chunksize=16)
    with pa.ipc.new_stream(name + ".arrows", lists(table).schema) as w:
        w.write_table(lists(table), max_chunksize=11)
    with open(name + ".csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(table.column_names)
        for row in table.to_pylist():
            w.writerow(" ".join(map(repr, v)) if isinstance(v, list) else v for v in row.values())

spark = {"date": pa.array([18_000, 18_001], pa.date32()), "at": pa.array([5, 6], pa.timestamp("ms")),
         "half": pa.array(np.array([1.5, -2], np.float16)), "small": pa.array([1, 255], pa.uint8()),
         "flag": pa.array([True, False]), "word": pa.array(["a", "b"]).dictionary_encode(),
         "src": pa.array([0, 1], pa.int16()), "dst": pa.array([1, 0], pa.uint32())}
pq.write_table(pa.table(spark), "types.parquet")
pa.feather.write_feather(pa.table(spark), "types.arrow", compression="uncompressed")

D = __import__("decimal").Decimal
stored = {"ints": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64())),
          "hash": pa.array([b"\x01\xab", b"\xff\x00", b"\x00\x00"], pa.binary(2)),
          "price": pa.array([D("1.25"), None, D("12345678901234567.89")], pa.decimal128(38, 2)),
          "tax": pa.array([D("0.50"), D("-2.25"), None], pa.decimal128(9, 2)),
          "half": pa.array(np.array([1.5, 0, -2], np.float16), mask=np.array([False, True, False])),
          "src": pa.array([0, 1, 2], pa.int64()), "dst": pa.array([1, 2, 0], pa.int64())}
pq.write_table(pa.table(stored), "stored.parquet", write_page_checksum=True)
pa.feather.write_feather(pa.table(stored), "stored.arrow", compression="uncompressed")
gap = pa.table({"id": pa.array([0, 1, 2], pa.int64()), "v": pa.array([[1, 2], [3, 4], [5, None]], pa.list_(pa.int32()))})
pq.write_table(gap, "gap.parquet")
pa.feather.write_feather(gap, "gap.arrow", compression="uncompressed")

# A table of all encodings, to be damaged: nodes, edges, a table of a database or a task.
n = 40
each = {
    "id": pa.array(range(n), pa.int64()), "src": pa.array([i * 7 % n for i in range(n)], pa.int64()),
    "dst": pa.array([i * i % n for i in range(n)], pa.int32()),
    "at": pa.array([1_700_000_000_000 + 1000 * i for i in range(n)], pa.timestamp("ms")),
    "wide": pa.array([[-1 << 63, (1 << 63) - 1, i, i * i][i * i % 5 % 4] for i in range(n)], pa.int64()),
    "label": pa.array([i % 3 for i in range(n)], pa.int32()), "flag": pa.array([i % 5 < 2 for i in range(n)]),
    "x": pa.array([i / 8 for i in range(n)], pa.float32()),
    "y": pa.array([None if i % 4 == 1 else i / 4 for i in range(n)], pa.float64()),
    "ref": pa.array([None if i % 6 == 0 else i * 3 % n for i in range(n)], pa.int64()),
    "word": pa.array([None if i % 9 == 2 else ["red", "green", "blue"][i % 3] for i in range(n)]),
    "name": pa.array([f"name {i // 3}" for i in range(n)]), "note": pa.array(["n" * (i % 7) for i in range(n)]),
    "more": pa.array([f"more of {i}" for i in range(n)]),
    "vector": pa.array([[i, i + 1, i + 2] for i in range(n)], pa.list_(pa.int32())),
    "ragged": pa.array([None if i == 3 else [i / 2] * (i % 4) for i in range(n)], pa.list_(pa.float64())),
    "hash": pa.array([bytes([i, 255 - i, 7]) for i in range(n)], pa.binary(3)),
    "price": pa.array([D(f"{i}.25") for i in range(n)], pa.decimal128(12, 2)),
}
encodings = {"id": "DELTA_BINARY_PACKED", "dst": "DELTA_BINARY_PACKED", "at": "DELTA_BINARY_PACKED",
             "wide": "DELTA_BINARY_PACKED", "x": "BYTE_STREAM_SPLIT", "name": "DELTA_BYTE_ARRAY",
             "note": "DELTA_LENGTH_BYTE_ARRAY", "flag": "RLE",
             "vector.list.element": "DELTA_BINARY_PACKED"}
for version in "12":
    pq.write_table(pa.table(each), f"all.{version}.parquet", compression="none", data_page_version=version + ".0",
                   use_dictionary=["ref", "word", "label", "y", "price"], column_encoding=encodings, data_page_size=64,
                   write_statistics=version == "1", store_schema=False, write_batch_size=16)
each["word"] = each["word"].dictionary_encode()
for name, codec in {"all.arrow": "uncompressed", "all.lz4.arrow": "lz4"}.items():
    pa.feather.write_feather(pa.table(each), name, compression=codec, chunksize=16)
each["word"] = each["word"].dictionary_decode()
with pa.ipc.new_stream("all.arrows", pa.table(each).schema) as w:
    w.write_table(pa.table(each), max_chunksize=16)

two = {"src": pa.array([0, 1], pa.int64()), "dst": pa.array([1, 0], pa.int64())}
pa.feather.write_feather(pa.table({**two, "tax": pa.array([D("0.50"), None], pa.decimal32(5, 2))}), "few.arrow",
                         compression="uncompressed")
pq.write_table(pa.table({**two, "m": pa.array([[(1, 2)], [(3, 4)]], pa.map_(pa.int32(), pa.int32()))}), "map.parquet")
