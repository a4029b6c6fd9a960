"""RelBench's own synthetic database (its FakeDataset), as a folder in RelBench's form, with two tasks.

    pip install --no-deps --target old relbench==2.1.2
    python fake.py old/relbench/datasets/fake.py FOLDER

Version 3 of RelBench, which must be installed, has no such database any more, but the classes that it is made of. Its
customers review products, at random. The targets follow from the past: who has reviewed much of late, and which toys. A
loader that loses neighbours, or shows later ones, is seen in the metric.
"""
import argparse
import importlib.util
import pathlib
import random

import numpy as np
import pandas as pd
from relbench.manifest import DatasetManifest, TableSpec, TaskManifest

LATELY = pd.Timedelta(days=3650)  # a customer reviews about twice in that time

parser = argparse.ArgumentParser()
parser.add_argument("source", type=pathlib.Path)
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("--customers", type=int, default=1000)
parser.add_argument("--products", type=int, default=60)
parser.add_argument("--reviews", type=int, default=40000)
args = parser.parse_args()
random.seed(1), np.random.seed(1)
spec = importlib.util.spec_from_file_location("fake", args.source)
fake = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fake)
database = fake.FakeDataset(args.products, args.customers, args.reviews)
db = database.make_db()

# Keys become 0, 1, 2, .. in the order of rows, as version 3 wants them; a key that no row has becomes none.
numbers = {name: pd.Series(range(len(t.df)), t.df[t.pkey_col]) for name, t in db.table_dict.items() if t.pkey_col}
(args.folder / "db").mkdir(parents=True)
for name, table in db.table_dict.items():
    for column, of in table.fkey_col_to_pkey_table.items():
        table.df[column] = table.df[column].map(numbers[of]).astype("Int64")
    if table.pkey_col:
        table.df[table.pkey_col] = range(len(table.df))
    table.df.to_parquet(args.folder / "db" / f"{name}.parquet")
DatasetManifest("fake", str(database.val_timestamp), str(database.test_timestamp), tables={
    name: TableSpec(t.pkey_col, t.time_col, dict(t.fkey_col_to_pkey_table)) for name, t in db.table_dict.items()
}).save(args.folder / "manifest.yaml")

reviews = db.table_dict["review"].df.dropna(subset=["customer_id"])
stamps = {"train": pd.date_range(database.val_timestamp - 10 * LATELY, database.val_timestamp - LATELY, periods=40),
          "val": [database.val_timestamp], "test": [database.test_timestamp]}


def rows(of, stamps):
    """What a function says of the late reviews of each customer, as of each time."""
    for at in stamps:
        past = reviews[(reviews.review_time <= at) & (reviews.review_time > at - LATELY)]
        for customer, products in past.groupby("customer_id").product_id:
            told = of(products)
            if told is not None:
                yield {"timestamp": at, "customer_id": int(customer), **told}


def toys(products):
    """Those of them that have a category: a third of all."""
    found = sorted(set(map(int, products)) & toys_of_all)
    return {"product_id": found} if found else None


toys_of_all = {i for i, category in enumerate(db.table_dict["product"].df.category) if category}

for manifest, of in (
    (TaskManifest("busy", "external", "binary_classification", entity_table="customer", entity_col="customer_id",
                  target_col="busy", time_col="timestamp", timedelta="1 days"),
     lambda products: {"busy": float(len(products) > 2)}),
    (TaskManifest("reviewed", "external", "recommendation", src_entity_table="customer", src_entity_col="customer_id",
                  dst_entity_table="product", dst_entity_col="product_id", eval_k=10, time_col="timestamp",
                  timedelta="1 days"),
     toys),
):
    folder = args.folder / "tasks" / manifest.name
    folder.mkdir(parents=True)
    manifest.save(folder / "manifest.yaml")
    for split, at in stamps.items():
        pd.DataFrame(rows(of, at)).to_parquet(folder / f"{split}.parquet")
