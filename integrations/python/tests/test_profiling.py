"""khop in profilers and loggers."""
import json
import sys
import types

import khop
import pytest
from conftest import run
from khop import profiling


def spans(path):
    """Spans of a merged trace by lane and name, in order: when they begin and end, in microseconds."""
    with open(path) as file:
        trace = json.load(file)
    lanes = {e["tid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    found = {}
    for e in trace["traceEvents"]:
        if e.get("ph") == "X":
            at, lane = float(e["ts"]), lanes.get(e["tid"], "") if e.get("cat") == "khop" else "torch"
            found.setdefault((lane.split(",")[0], e["name"]), []).append((at, at + float(e["dur"])))
    return {key: sorted(all_of) for key, all_of in found.items()}


def test_torch_and_khop_show_the_same_batches(program, dataset, tmp_path):
    """khop sends a batch before Python has it, and Python gives it back before khop knows: so the least of either
    bounds how far the two clocks differ. Python takes less for a batch than khop, and waits. Others' work adds to
    both."""
    torch = pytest.importorskip("torch")
    if not torch.profiler.kineto_available():
        pytest.skip("this torch has no Kineto, whose traces have times of day")
    own, theirs, both = (tmp_path / name for name in ("khop.json", "torch.json", "both.json"))
    there, back = [], []
    for _ in range(5):
        with khop.Loader(dataset("sbm"), fanouts=[20, 20, 20], batch_size=16, process="server", workers=1,
                         trace=str(own)) as loader:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
                batches = iter(loader)
                for i in range(len(loader)):
                    batch = next(batches)
                    if i == 0:
                        batch.to("cpu")
                    with torch.profiler.record_function("give back"):
                        del batch
                assert next(batches, None) is None
            steps = len(loader)
        profiler.export_chrome_trace(str(theirs))
        run(program, "trace", "merge", both, own, theirs)
        seen = spans(both)
        sent, waited, given = seen["loop", "step"], seen["torch", "khop.wait"], seen["torch", "give back"]
        kept = seen["trainer", "batch"]
        assert len(sent) == len(given) == len(kept) == len(waited) - 1 == steps and len(seen["torch", "khop.copy"]) == 1
        there += [has[1] - step[0] for step, has in zip(sent, waited)]
        back += [slot[1] - gives[0] for slot, gives in zip(kept, given)]
        if max(min(there), min(back)) < 100:
            break
    print(f"{len(there)} batches: the clocks differ by {-min(back):.0f} to {min(there):.0f} us")
    assert 0 <= min(there) < 100 and 0 <= min(back) < 100, (min(there), min(back))


def test_torch_shows_ranges_of_khop(dataset):
    torch = pytest.importorskip("torch")
    with khop.Loader(dataset("sbm"), fanouts=[5], batch_size=256, process="server") as loader:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for batch in loader:
                batch.to("cpu")
    counts = {e.key: e.count for e in profiler.key_averages()}
    assert counts["khop.copy"] == len(loader) and counts["khop.wait"] >= len(loader)


def test_without_a_profiler_nothing_is_shown():
    assert profiling.shown("khop.wait") is profiling._NONE


def test_nvtx_ranges_are_shown_where_nsight_runs(monkeypatch):
    shown = []
    nvtx = types.SimpleNamespace(range=lambda name: shown.append(name) or profiling._NONE)
    cuda = types.SimpleNamespace(is_available=lambda: True, nvtx=nvtx)
    torch = types.SimpleNamespace(autograd=types.SimpleNamespace(), cuda=cuda)
    monkeypatch.setitem(sys.modules, "torch", torch)
    profiling.shown("khop.wait")
    assert not shown
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "7")
    profiling.shown("khop.wait")
    assert shown == ["khop.wait"]


def test_metrics_are_flat_numbers(dataset):
    with khop.Loader(dataset("sbm"), fanouts=[5], batch_size=256, process="server") as loader:
        for _ in loader:
            pass
        figures = loader.metrics()
        assert all(type(v) is float for v in figures.values())
        assert figures["khop/loader/batches"] == figures["khop/batches_sent"] == len(loader)
        assert 0 < figures["khop/loader/sample/sum_s"] < 1e3 and not any(k.endswith("_ns") for k in figures)


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_a_lightning_callback_logs_metrics(monkeypatch, capsys, name):
    for module in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.setitem(sys.modules, module, None)
    stub = types.ModuleType(name)
    stub.Callback = type("Callback", (), {})
    monkeypatch.setitem(sys.modules, name, stub)
    if "." in name:
        monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    loader = types.SimpleNamespace(metrics=lambda: {"khop/next": 3.0}, report=lambda: "It waited.")
    logged = []
    logger = types.SimpleNamespace(log_metrics=lambda figures, step: logged.append((figures, step)))
    trainer = types.SimpleNamespace(loggers=[logger], global_step=7, is_global_zero=True)
    callback = profiling.lightning_callback(loader)
    callback.on_train_epoch_end(trainer, None)
    assert isinstance(callback, stub.Callback) and logged == [({"khop/next": 3.0}, 7)]
    assert capsys.readouterr().out == "It waited.\n"
