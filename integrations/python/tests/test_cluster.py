"""khop.cluster: conversion in tasks, by what runs functions."""
import concurrent.futures
import contextlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import khop
import khop.cluster
from conftest import PATIENCE, run


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
    run(program, "convert", source, tmp_path / "whole.khop", "--symmetrise")
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


KUBECTL = """#!%s
import os, pathlib, subprocess, sys
import yaml

at = pathlib.Path(__file__).parent
if sys.argv[1] == "apply":
    job = yaml.safe_load(sys.stdin)
    task = job["spec"]["template"]["spec"]["containers"][0]
    env = {**os.environ, **{e["name"]: e["value"] for e in task["env"]}}
    ended = [subprocess.run(task["command"], env={**env, "JOB_COMPLETION_INDEX": str(i)}).returncode
             for i in range(job["spec"]["completions"])]
    (at / job["metadata"]["name"]).write_text("failed" if any(ended) else "complete")
else:
    sys.exit((at / sys.argv[-1].partition("/")[2]).read_text() != sys.argv[2].rpartition("=")[2])
"""


def test_indexed_jobs_make_the_same_dataset_or_end(program, source, whole, tmp_path, tmp_path_factory):
    """By a kubectl that runs the manifests here."""
    pytest.importorskip("yaml")
    tools = tmp_path_factory.mktemp("tools")
    (tools / "khop").symlink_to(program)
    (tools / "kubectl").write_text(KUBECTL % sys.executable)
    (tools / "kubectl").chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "IMAGE": "i", "CLAIM": "c", "MOUNT": "/m"}
    script = run(program, "convert", source, tmp_path / "out.khop", "--tasks", 2, "--symmetrise", "--script", "k8s")
    kept = source.read_text()
    source.write_text("changed")
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1 and "job/khop-convert-0-read has failed" in done.stderr
    source.write_text(kept)
    run(program, "convert", "-", tmp_path / "out.khop", "--clean")
    script = run(program, "convert", source, tmp_path / "out.khop", "--tasks", 2, "--symmetrise", "--script", "k8s")
    run("sh", "-c", script, env=env)
    assert identity(tmp_path / "out.khop") == whole


SBATCH = """#!/bin/sh
# Runs the tasks of an array here, and notes its options.
last=$(cat "$NOTES" 2>/dev/null | wc -l) first=0 end=0
echo "$*" | tr '\\n' ' ' >>"$NOTES"; echo >>"$NOTES"
for option; do case $option in --array=*) end=${option##*-};; esac; wrapped=$option; done
while [ $first -le $end ]; do SLURM_ARRAY_TASK_ID=$first sh -c "$wrapped" >&2 || exit 1; first=$((first + 1)); done
echo $((last + 1))
"""


def test_the_script_of_slurm_has_all_jobs_in_line_before_it_waits(program, source, whole, tmp_path, tmp_path_factory):
    """By an sbatch that runs the jobs here."""
    tools = tmp_path_factory.mktemp("tools")
    (tools / "khop").symlink_to(program)
    (tools / "sbatch").write_text(SBATCH)
    (tools / "sbatch").chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "NOTES": str(tools / "notes")}
    script = run(program, "convert", source, tmp_path / "out.khop", "--tasks", 2, "--symmetrise", "--script", "slurm")
    run("bash", "-c", script, "script", "--wait", "--mem=8G", "--output=o", env=env)
    assert identity(tmp_path / "out.khop") == whole
    jobs = (tools / "notes").read_text().splitlines()
    assert ["--wait" in job for job in jobs] == [False] * (len(jobs) - 1) + [True] and len(jobs) == 7
    assert all("--mem=8G" in job and "--output=o" in job for job in jobs)
    assert "--dependency=afterany:6 " in jobs[-1]
    assert sorted(os.listdir(tmp_path)) == ["edges.csv", "out.khop", "whole.khop"]


class Bare:
    """Futures as Ray's, which nobody but the tasks themselves ends."""

    def __init__(self):
        self.futures = []

    def submit(self, fn, *args):
        self.futures.append(concurrent.futures.Future())
        return self.futures[-1]

    def cancel(self):
        for future in self.futures:
            future.set_exception(RuntimeError("killed"))


def test_an_executor_that_ends_its_tasks_itself_is_waited_for(program, source, tmp_path):
    executor = Bare()
    with pytest.raises(khop.cluster.Cancelled):
        khop.cluster.convert(source, tmp_path / "out.khop", tasks=2, executor=executor, cancelled=lambda: True)
    assert [str(future.exception(0)) for future in executor.futures] == 3 * ["killed"]
    assert os.listdir(tmp_path) == ["edges.csv"]


ENGINES = os.environ.get("KHOP_CLUSTER", "").split()  # dask ray spark slurm: those that are here, and are to be tried


@contextlib.contextmanager
def dask():
    import distributed

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
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

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        yield khop.cluster.SparkExecutor(session)
    finally:
        session.stop()


@contextlib.contextmanager
def slurm():
    """The cluster that sbatch knows, by the script that khop prints."""
    yield None


def convert(executor, source, out, **options):
    """Converts by an executor; by Slurm without one."""
    if executor is not None:
        khop.cluster.convert(source, out, executor=executor, **options)
        return
    tasks = options.pop("tasks")
    script = run(os.environ["KHOP_BIN"], "convert", source, out, "--tasks", tasks, "--script", "slurm",
                 *(f"--{name}" for name in options))
    run("bash", "-c", script, "script", "--wait", "--output=/dev/null")


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    with globals()[request.param]() as executor:
        yield executor


@pytest.fixture(scope="module")
def sources(program, tmp_path_factory):
    """Sources, their options, and the ids of what one khop convert makes of them."""
    folder = tmp_path_factory.mktemp("sources")
    rng = np.random.default_rng(3)
    lines = [f"n{a},n{b},{w}.5" for a, b, w in rng.integers(0, 300, (4000, 3))]
    (folder / "edges.csv").write_text("src,dst,weight\n" + "\n".join(lines) + "\n")
    found = {"text": (folder / "edges.csv", {"symmetrise": True}),
             "typed": (shop.write(folder / "shop", *shop.tables()), {}),
             "folder": (shop.write(folder / "plain", *shop.plain()), {"symmetrise": True})}
    for name, (source, options) in found.items():
        run(program, "convert", source, folder / name, *(f"--{option}" for option in options))
    return {name: (*of, khop.info(folder / name)["id"]) for name, of in found.items()}


if ENGINES:
    import shop

    @pytest.mark.parametrize("tasks", [1, 2, 5, 16])
    @pytest.mark.parametrize("name", ["text", "folder", "typed"])
    def test_engines_make_the_same_dataset(engine, sources, tmp_path, name, tasks):
        source, options, whole = sources[name]
        convert(engine, source, tmp_path / "out.khop", tasks=tasks, **options)
        assert khop.info(tmp_path / "out.khop")["id"] == whole
        assert os.listdir(tmp_path) == ["out.khop"]

    def test_engines_say_what_is_wrong(engine, tmp_path):
        if engine is None:
            pytest.skip("Slurm's jobs say it in their outputs")
        (tmp_path / "edges.csv").write_text("src,dst,weight\na,b,1\na,b,x\n")
        with pytest.raises(khop.WriteError, match="task read-"):
            convert(engine, tmp_path / "edges.csv", tmp_path / "out.khop", tasks=2, columns=["src", "dst", "weight"])
        assert os.listdir(tmp_path) == ["edges.csv"]

    def test_engines_say_what_is_done_and_are_cancelled(engine, sources, tmp_path):
        if engine is None:
            pytest.skip("Slurm's jobs are cancelled by scancel")
        told = []
        with pytest.raises(khop.cluster.Cancelled):
            convert(engine, sources["typed"][0], tmp_path / "out.khop", tasks=5,
                    progress=lambda *what: told.append(what), cancelled=lambda: len(told) > 2)
        assert [n for n, _, _ in told] == list(range(1, len(told) + 1)) and {total for _, total, _ in told} == {18}
        assert os.listdir(tmp_path) == []

    def test_frames_make_the_dataset_of_their_files(engine, sources, tmp_path):
        """In the order of the files, and by a column whatever the partitions are."""
        write, read, by_file = frames_of(engine)
        for name, of in ("typed", shop.tables), ("folder", shop.plain):
            source, options, whole = sources[name]
            places = iter(sorted(path for path in source.parent.iterdir() if path.is_dir()))
            nodes, edges = (shop.swap(tables, lambda _, table: table.update(order=by_file) or read(next(places)))
                            for tables in of())
            write(nodes, edges, tmp_path / name, tasks=3, **options)
            assert khop.info(tmp_path / name)["id"] == whole
            edges = shop.swap(edges, lambda frame, table: table.update(order="row") or frame.repartition(7))
            write(nodes, edges, tmp_path / name, tasks=2, force=True, **options)
            assert khop.info(tmp_path / name)["id"] == whole
        assert sorted(os.listdir(tmp_path)) == ["folder", "typed"]


STORE = os.environ.get("KHOP_S3_SERVER")  # s3://BUCKET/PREFIX of a real one, as AWS_ENDPOINT_URL says

if STORE:
    def test_a_real_store_gives_what_folders_give(program, tmp_path):
        """Cold, warm, in a cache that is too small, by two processes, and through tasks: ids and digests are equal."""
        bench = pathlib.Path(__file__).parents[3] / "bench" / "machines" / "store.py"
        said = run(sys.executable, bench, "--khop", program, "--at", f"{STORE}/{os.getpid()}", "--folder", tmp_path,
                   "--nodes", 300_000, "--features", 128, "--rounds", 1)
        assert said.startswith("digests and ids are equal\n")


def frames_of(engine):
    """What writes tables of an engine, what reads a folder of Parquet, and the columns that say the files' order."""
    if isinstance(engine, khop.cluster.SparkExecutor):
        from khop.spark import write_dataset
        from pyspark.sql import SparkSession

        session = SparkSession.getActiveSession()
        return (write_dataset, lambda at: session.read.parquet(str(at)),
                ["_metadata.file_path", "_metadata.row_index"])
    if isinstance(engine, khop.cluster.RayExecutor):
        from khop.ray import write_dataset
        from ray.data import read_parquet

        return write_dataset, lambda at: read_parquet(str(at)), []
    pytest.skip("it has no tables that khop takes")
