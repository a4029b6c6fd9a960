"""khop.cluster: conversion in tasks, by what runs functions."""
import concurrent.futures
import contextlib
import os

import numpy as np
import pytest

import khop
import khop.cluster


@pytest.fixture
def source(tmp_path):
    rng = np.random.default_rng(3)
    lines = [f"n{a},n{b},{w}.5" for a, b, w in rng.integers(0, 300, (4000, 3))]
    path = tmp_path / "edges.csv"
    path.write_text("src,dst,weight\n" + "\n".join(lines) + "\n")
    return path


def identity(path):
    return khop.info(path)["id"]


@pytest.fixture
def whole(program, source, tmp_path):
    khop.cluster.convert(source, tmp_path / "whole.khop", tasks=1, symmetrise=True)
    return identity(tmp_path / "whole.khop")


@pytest.mark.parametrize("pool", [concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor])
def test_executors_make_the_same_dataset(program, source, whole, tmp_path, pool):
    told = []
    with pool(2) as executor:
        khop.cluster.convert(
            source, tmp_path / "out.khop", tasks=3, executor=executor, symmetrise=True, max_memory="64MiB",
            progress=lambda *a: told.append(a))
    assert identity(tmp_path / "out.khop") == whole
    assert [n for n, _, _ in told] == list(range(1, len(told) + 1)) and told[-1][1:] == (len(told), "commit-0")
    assert sorted(os.listdir(tmp_path)) == ["edges.csv", "out.khop", "whole.khop"]


def test_errors_and_cancelling_leave_nothing(program, source, tmp_path):
    with pytest.raises(khop.WriteError, match="task read-"):
        source.write_text(source.read_text() + "a,b,x\n")
        khop.cluster.convert(source, tmp_path / "out.khop", tasks=2, columns=["src", "dst", "weight"])
    with pytest.raises(khop.OptionError):
        khop.cluster.convert(source, tmp_path / "out.khop", tasks=2, dedupe="most")
    with pytest.raises(khop.cluster.Cancelled):
        khop.cluster.convert(source, tmp_path / "out.khop", tasks=2, cancelled=lambda: True)
    assert os.listdir(tmp_path) == ["edges.csv"]


@contextlib.contextmanager
def dask():
    import distributed

    with distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            yield client.get_executor()


@contextlib.contextmanager
def ray():
    """Two nodes of one machine, which has an address of its own (unshare -n, and its loopback up)."""
    import ray.cluster_utils

    cluster = ray.cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address)
    try:
        yield khop.cluster.RayExecutor(num_cpus=1)
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextlib.contextmanager
def spark():
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield khop.cluster.SparkExecutor(session)
    finally:
        session.stop()


ENGINES = os.environ.get("KHOP_CLUSTER", "").split()  # dask ray spark: those that are to be tried, where they are
if ENGINES:
    @pytest.mark.parametrize("tasks", [1, 2, 5, 16])
    @pytest.mark.parametrize("engine", ENGINES)
    def test_engines_make_the_same_dataset(program, source, whole, tmp_path, engine, tasks):
        with globals()[engine]() as executor:
            khop.cluster.convert(source, tmp_path / "out.khop", tasks=tasks, executor=executor, symmetrise=True)
        assert identity(tmp_path / "out.khop") == whole
