"""khop.graphbolt.OnDiskDataset: each array of a folder of GraphBolt is what was written, in tensors and in batches."""
import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("yaml", reason="PyYAML is not installed")

import khop.graphbolt as gb  # noqa: E402

COUNTS = {"user": 40, "item": 60}
NAMES = ("feat", "x", "TitleLen", "timestamp", "weights", "Weight", "label")


class Folder:
    """A folder of GraphBolt with drawn arrays, and what they are."""

    def __init__(self, path, typed, form, seed=5):
        rng = np.random.default_rng(seed)
        self.path, self.typed, self.arrays = path, typed, {}
        self.counts = COUNTS if typed else {None: 50}
        ends = {None: (None, None)} if not typed else {
            "user:likes:item": ("user", "item"), "item:near:item": ("item", "item")}
        said = {"dataset_name": "drawn", "graph": {"nodes": [], "edges": [], "feature_data": []}, "feature_data": [],
                "tasks": [{"name": "first", "metric": "mrr", "num_classes": 3}, {"name": "second"}]}
        self.edges = {}
        for t, n in self.counts.items():
            said["graph"]["nodes"].append({"num": n, **({"type": t} if t else {})})
            for name in NAMES:
                self.feature(said["feature_data"], "node", t, name, rng.normal(size=(n, 2)[:1 + (name != "TitleLen")]))
            self.feature(said["graph"]["feature_data"], "node", t, "timestamp", rng.integers(0, 100, n))
        for e, (source, target) in ends.items():
            pairs = np.stack([rng.integers(0, self.counts[source], 300), rng.integers(0, self.counts[target], 300)])
            self.edges[e] = pairs
            name = f"edges-{len(self.edges)}.{'csv' if form == 'csv' else 'npy'}"
            if form == "csv":
                np.savetxt(path / name, pairs.T, "%d", ",")
            else:
                np.save(path / name, pairs)
            said["graph"]["edges"].append({"format": form, "path": name, **({"type": e} if e else {})})
            for name in NAMES:
                self.feature(said["feature_data"], "edge", e, name, rng.normal(size=300).astype(np.float32))
            for name in ("timestamp", "weights"):
                of = rng.integers(0, 100, 300) if name == "timestamp" else rng.random(300)
                self.feature(said["graph"]["feature_data"], "edge", e, name, of)
        t = "item" if typed else None
        self.items = rng.permutation(self.counts[t])[:20], rng.integers(0, 3, 20)
        for i, task in enumerate(said["tasks"]):
            data = []
            for name, array in zip(("seeds", "labels"), self.items):
                np.save(path / f"{name}-{i}.npy", array)
                data.append({"name": name, "format": "numpy", "path": f"{name}-{i}.npy"})
            task["train_set"] = [{"data": data, **({"type": t} if t else {})}]
        (path / "metadata.yaml").write_text(json.dumps(said))

    def feature(self, list_, domain, t, name, array):
        if domain == "node" and name == "feat":
            array = array.astype(np.float32)
        kind = "attribute" if list_ is not None and name in ("timestamp", "weights") and array.ndim == 1 and (
            array.dtype != np.float32 and (domain != "node" or array.dtype == np.int64)) else "feature"
        file = f"{kind}-{domain}-{len(self.arrays)}.npy"
        np.save(self.path / file, array)
        self.arrays[kind, domain, t, name] = array
        list_.append({"domain": domain, "name": name, "format": "numpy", "path": file, **({"type": t} if t else {})})


@pytest.fixture(params=[(t, f) for t in (False, True) for f in ("numpy", "csv")], ids=str)
def folder(request, tmp_path):
    return Folder(tmp_path, *request.param)


def rows(array):
    return torch.as_tensor(array if array.ndim > 1 else array[:, None])


def fused(folder, graph, arrays):
    """What arrays by edge type are in the order of the graph's tensors."""
    ends, numbers, kinds, first = [], [], [], {}
    at = 0
    for t in sorted(folder.counts, key=str):
        first[t], at = at, at + folder.counts[t]
    for i, e in enumerate(sorted(folder.edges, key=str)):
        s, t = (None, None) if e is None else e.split(":")[::2]
        ends.append(torch.as_tensor(folder.edges[e]) + torch.tensor([[first[s]], [first[t]]]))
        numbers.append(torch.as_tensor(arrays[e]))
        kinds.append(torch.full((300,), i))
    (source, target), order = torch.cat(ends, 1), torch.cat(ends, 1)[1].sort(stable=True)[1]
    return source[order], target[order], torch.cat(numbers)[order], torch.cat(kinds)[order]


def test_every_feature_is_what_was_written(folder):
    store = gb.OnDiskDataset(folder.path).load().feature
    wanted = {key[1:]: rows(a) for key, a in folder.arrays.items() if key[0] == "feature"}
    assert set(store.keys()) == set(wanted)
    for key, array in wanted.items():
        assert store.size(*key) == array.shape[1:] and torch.equal(store.read(*key), array), key
        some = torch.tensor([3, 0, 17, 3])
        assert torch.equal(store.read(*key, some), array[some]), key
    with pytest.raises(KeyError, match="there are"):
        store.size("node", "no such type" if folder.typed else "user", "feat")


def test_tasks_have_their_names_and_items(folder):
    data = gb.OnDiskDataset(folder.path)
    assert [t.metadata["name"] for t in data.load().tasks] == ["first", "second"]
    assert data.tasks[0].metadata == {"name": "first", "metric": "mrr", "num_classes": 3}
    assert data.dataset_name == "drawn"
    assert [t.metadata["name"] for t in data.load(tasks="second").tasks] == ["second"]
    with pytest.warns(UserWarning, match="not found.*fake"):
        assert data.load(tasks=["fake"]).tasks == []
    with pytest.raises(TypeError, match="list of names"):
        data.load(tasks=3)
    items = data.load().tasks[0].train_set
    items = items["item"] if folder.typed else items
    assert items.names == ("seeds", "labels") and items[:][0].tolist() == folder.items[0].tolist()
    assert items[:][1].tolist() == folder.items[1].tolist()
    assert data.tasks[0].validation_set is None


def test_the_graph_is_what_was_written(folder):
    for include in (False, True):
        graph = gb.OnDiskDataset(folder.path, include_original_edge_id=include).load().graph
        numbers = {e: np.arange(300) for e in folder.edges}
        source, target, number, kind = fused(folder, graph, numbers)
        column = torch.arange(graph.total_num_nodes).repeat_interleave(graph.csc_indptr.diff().long())
        assert torch.equal(graph.indices.long(), source) and torch.equal(column, target)
        assert (graph.type_per_edge is None) is not folder.typed
        assert not folder.typed or torch.equal(graph.type_per_edge.long(), kind)
        for name in ("timestamp", "weights"):
            of = {e: folder.arrays["attribute", "edge", e, name] for e in folder.edges}
            assert torch.equal(graph.edge_attributes[name], fused(folder, graph, of)[2])
        whole = torch.cat([torch.as_tensor(folder.arrays["attribute", "node", t, "timestamp"])
                           for t in sorted(folder.counts, key=str)])
        assert torch.equal(graph.node_attributes["timestamp"], whole)
        assert (gb.ORIGINAL_EDGE_ID in graph.edge_attributes) is include
        assert not include or torch.equal(graph.edge_attributes[gb.ORIGINAL_EDGE_ID].long(), number)
        assert graph.num_nodes == (COUNTS if folder.typed else 50)


def check_batch(folder, m):
    """Every node, edge and row of a minibatch is the folder's."""
    typed = folder.typed
    for (t, name), got in ((k if typed else (None, k), v) for k, v in m.node_features.items()):
        ids = m.input_nodes[t] if typed else m.input_nodes
        assert torch.equal(got, rows(folder.arrays["feature", "node", t, name])[ids.long()]), name
    taken = 0
    for layer, s in enumerate(m.sampled_subgraphs):
        for e in folder.edges:
            csc, ids = (s.sampled_csc[e], s.original_edge_ids[e]) if typed else (s.sampled_csc, s.original_edge_ids)
            a, b = e.split(":")[::2] if typed else (None, None)
            heads = s.original_row_node_ids[a] if typed else s.original_row_node_ids
            columns = s.original_column_node_ids[b] if typed else s.original_column_node_ids
            target = torch.repeat_interleave(torch.arange(len(columns)), csc.indptr.diff().long())
            pairs, ids = torch.as_tensor(folder.edges[e]), ids.long()
            assert torch.equal(heads[csc.indices.long()].long(), pairs[0, ids])
            assert torch.equal(columns[target].long(), pairs[1, ids])
            taken += len(ids)
            for name in NAMES:
                key = (e, name) if typed else name
                if m.edge_features and key in m.edge_features[layer]:
                    want = rows(folder.arrays["feature", "edge", e, name])[ids]
                    assert torch.equal(m.edge_features[layer][key], want), name
    assert taken > 0


def pipeline(folder, data, sample):
    pipe = sample(gb.ItemSampler(data.tasks[0].train_set, batch_size=8, shuffle=True, seed=2), data.graph)
    keys = {t: list(NAMES) for t in folder.counts} if folder.typed else list(NAMES)
    edge_keys = {e: list(NAMES) for e in folder.edges} if folder.typed else list(NAMES)
    return pipe.fetch_feature(data.feature, keys, edge_keys)


def test_batches_by_khop_and_by_the_stages_have_what_was_written(folder, program):
    data = gb.OnDiskDataset(folder.path, include_original_edge_id=True).load()
    by_khop = pipeline(folder, data, lambda p, g: p.sample_neighbor(g, [3, 4]))
    again = pipeline(folder, data, lambda p, g: p.sample_neighbor(g, [3, 4], deduplicate=False))
    for pipe, by in ((by_khop, "khop"), (again, "the stages: deduplicate=False")):
        with_khop = gb.DataLoader(pipe)
        assert with_khop.by.startswith(by)
        seen = []
        for m in with_khop:
            check_batch(folder, m)
            seeds, labels = (m.seeds["item"], m.labels["item"]) if folder.typed else (m.seeds, m.labels)
            seen += list(zip(seeds.tolist(), labels.tolist()))
        assert sorted(seen) == sorted(zip(*(i.tolist() for i in folder.items)))
        with_khop.close()
    assert (folder.path / "khop.graphbolt").is_dir()


def test_attributes_decide_what_is_sampled(folder, program):
    data = gb.OnDiskDataset(folder.path, include_original_edge_id=True).load()
    keys = list(folder.edges)
    items = data.tasks[0].train_set
    times = torch.full((20,), 60)
    timed = (gb.ItemSet((items["item"][:][0], times), ("seeds", "timestamp")) if folder.typed else
             gb.ItemSet((items[:][0], times), ("seeds", "timestamp")))
    timed = gb.ItemSetDict({"item": timed}) if folder.typed else timed
    pipe = gb.ItemSampler(timed, 8).temporal_sample_neighbor(data.graph, [4], edge_timestamp_attr_name="timestamp")
    for m in gb.DataLoader(pipe):
        (s,) = m.sampled_subgraphs
        for e in keys:
            ids = s.original_edge_ids[e] if folder.typed else s.original_edge_ids
            assert (folder.arrays["attribute", "edge", e, "timestamp"][ids.numpy()] < 60).all()
    with pytest.raises(KeyError, match="no column 'Weights' of edges; there are: timestamp, weights"):
        gb.DataLoader(gb.ItemSampler(timed, 8).sample_neighbor(data.graph, [4], prob_name="Weights"))


def test_a_folder_with_only_preprocessed_opens(program):
    import pathlib
    import shutil
    import tempfile

    typed = pathlib.Path(__file__).parents[3] / "formats/internal/foreign/graphbolt/testdata/typed"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(typed / "preprocessed", pathlib.Path(folder) / "preprocessed")
        data = gb.OnDiskDataset(folder).load()
        whole = gb.OnDiskDataset(shutil.copytree(typed, pathlib.Path(folder) / "whole")).load()
        for name in ("csc_indptr", "node_type_offset"):
            assert torch.equal(getattr(data.graph, name), getattr(whole.graph, name))

        def edges(graph):
            column = torch.arange(graph.total_num_nodes).repeat_interleave(graph.csc_indptr.diff().long())
            return sorted(zip(graph.indices.tolist(), column.tolist(), graph.type_per_edge.tolist()))
        assert edges(data.graph) == edges(whole.graph)
        items = data.tasks[0].train_set
        assert items["paper"][:][0].tolist() == whole.tasks[0].train_set["paper"][:][0].tolist()
        pipe = gb.ItemSampler(items, 2).sample_neighbor(data.graph, [-1])
        for m in gb.DataLoader(pipe.fetch_feature(data.feature, {"paper": ["feat"]})):
            want = whole.feature.read("node", "paper", "feat")
            assert torch.equal(m.node_features["paper", "feat"], want[m.input_nodes["paper"].long()])
