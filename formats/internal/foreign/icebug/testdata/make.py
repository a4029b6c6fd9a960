"""Writes the graph of the tests by pyarrow: users, of whom some follow others and live in cities. Run it here."""
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

rng = np.random.default_rng(3)
n, cities, edges = 12, 3, 30


def write(name, /, **columns):
    table = pa.table(columns)
    with pq.ParquetWriter(f"shop/{name}.parquet", table.schema, compression="none", write_statistics=False,
                          store_schema=False) as w:
        w.write_table(table, row_group_size=9)
        w.add_key_value_metadata({"icebug_disk_version": "v1"})


def csr(name, src, dst, ptr, target, count, **columns):
    order = np.lexsort((dst, src))
    starts = np.searchsorted(src[order], np.arange(count + 1))
    write("indptr_" + name, ptr=pa.array(starts, ptr))
    write("indices_" + name, target=pa.array(dst[order], target), **columns)


write("nodes_user", id=pa.array([f"u{i * 5 % n}" for i in range(n)]),
      age=pa.array([None if i % 5 == 2 else 20 + i for i in range(n)], pa.int64()),
      born=pa.array([19000 + i for i in range(n)], pa.date32()), tags=pa.array([["a"]] * n),
      photo=pa.array([b"\xff\xd8"] * n))
write("nodes_city", id=pa.array([7, 8, 9], pa.int32()), name=["Aarau", None, "Bern"])
csr("follows", rng.integers(0, n, edges), rng.integers(0, n, edges), pa.uint64(), pa.uint64(), n,
    since=pa.array(range(edges), pa.int32()), note=["x"] * edges)
csr("livesin", np.arange(n), rng.integers(0, cities, n), pa.int16(), pa.uint8(), n)
with open("shop/schema.cypher", "w") as f:
    f.write("""// as Ladybug and the converter write it
CREATE NODE TABLE `user` (`id` STRING,`age` INT64, born DATE, tags STRING[], photo BLOB, PRIMARY KEY(`id`)) WITH (storage = 'x', format = 'icebug-disk');
create node table if not exists City(id INT32 PRIMARY KEY, name STRING) WITH (storage = '');
CREATE REL TABLE follows(FROM user TO user, since INT32, note STRING, MANY_MANY) WITH (storage = '', format = 'icebug-disk');
CREATE REL TABLE LivesIn(FROM `user` TO city) WITH (storage = 'icebug-disk:');
COMMENT ON TABLE user IS 'a; b';
""")
