"""What asks PyG's samplers for one sample at a time runs on khop.Sampler: PyG's, RelBench's and GraphRAG's loaders."""
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
from torch_geometric.data import Data, HeteroData  # noqa: E402
from torch_geometric.loader import NodeLoader  # noqa: E402
from torch_geometric.sampler import EdgeSamplerInput, NodeSamplerInput  # noqa: E402

import khop  # noqa: E402
from khop import pyg  # noqa: E402
from khop._native import library as _library  # noqa: E402

pytestmark = pytest.mark.skipif(bool(_library.why_not()), reason="no shared library")
N, E = 90, 700


@pytest.fixture
def data(program):
    rng = np.random.default_rng(5)
    return Data(x=torch.arange(N * 2.0).view(N, 2), edge_index=torch.from_numpy(rng.integers(0, N, (2, E))),
                num_nodes=N)


@pytest.fixture
def opened(monkeypatch):
    """How often a sampler was opened, and a loader."""
    count = {"sampler": 0, "loader": 0}
    for name in count:
        method = "sampler" if name == "sampler" else "open"
        true = getattr(pyg.structure.Structure, method)

        def counting(self, name=name, true=true, **how):
            count[name] += 1
            return true(self, **how)
        monkeypatch.setattr(pyg.structure.Structure, method, counting)
    return count


def check(out, data):
    """A sample's edges are the graph's."""
    assert torch.equal(out.node[out.row], data.edge_index[0, out.edge])
    assert torch.equal(out.node[out.col], data.edge_index[1, out.edge])


def test_calls_of_a_loader_open_a_sampler_once(data, opened):
    loader = pyg.NeighborLoader(data, [4, 3], batch_size=8, seed=3)
    first = loader([7, 3])
    assert first.n_id[:2].tolist() == [7, 3] and torch.equal(first.x, data.x[first.n_id])
    for ids in ([1], [5, 6, 7], list(range(N))):
        assert loader(ids).n_id[:len(ids)].tolist() == ids
    assert loader([7, 3]).edge_index.tolist() == first.edge_index.tolist() and opened == {"sampler": 1, "loader": 0}
    served = pyg.NeighborLoader(data, [4, 3], batch_size=8, seed=3, options={"process": "server"})([7, 3])
    assert served.n_id.tolist() == first.n_id.tolist() and opened["loader"] == 1  # a server of requests
    loader.close()
    with pytest.raises(khop.ServerError, match="closed"):
        loader([1])


def test_samples_of_nodes_and_of_edges_are_asked_for(data, opened):
    sampler = pyg.NeighborSampler(data, [4, 3], seed=3)
    kept = [sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([i, i + 1]))) for i in range(20)]
    for i, out in enumerate(kept):
        assert out.node[:2].tolist() == [i, i + 1]
        check(out, data)
    pairs = EdgeSamplerInput(torch.arange(5), data.edge_index[0, :5], data.edge_index[1, :5])
    check(sampler.sample_from_edges(pairs), data)
    served = pyg.NeighborSampler(data, [4, 3], seed=3, options={"process": "server"})
    for out in kept:
        same = served.sample_from_nodes(NodeSamplerInput(None, out.node[:2]))
        assert torch.equal(same.edge, out.edge)
    assert opened == {"sampler": 1, "loader": 1}


def test_threads_may_ask_one_sampler(data, opened):
    sampler, wrong = pyg.NeighborSampler(data, [-1]), []

    def ask(i):
        for _ in range(20):
            out = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([i])))
            if sorted(out.edge.tolist()) != (data.edge_index[1] == i).nonzero().view(-1).tolist():
                wrong.append(i)
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and opened["sampler"] == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_pygs_own_loader_takes_the_sampler(data, workers):
    sampler = pyg.NeighborSampler(data, [4, 3])
    first = sampler.sample_from_nodes(NodeSamplerInput(None, torch.tensor([1])))  # the library is there, then forked
    loader = NodeLoader(data, sampler, batch_size=16, shuffle=True, num_workers=workers)
    seen = []
    for batch in loader:
        seen += batch.input_id.tolist()
        assert torch.equal(batch.x, data.x[batch.n_id])
    assert sorted(seen) == list(range(N)) and first.node[0] == 1


@pytest.mark.parametrize("how", [{}, {"disjoint": True}, {"neg_sampling": "binary"}, {"neg_sampling": "triplet"}])
def test_calls_of_a_loader_of_links_open_a_sampler_once(data, opened, how):
    loader = pyg.LinkNeighborLoader(data, [4, 3], data.edge_index[:, :40], batch_size=8, seed=3, **how)
    for ids in ([7, 3], [1], list(range(40)), [7, 3]):
        batch = loader(ids)
        assert torch.equal(batch.x, data.x[batch.n_id]) and batch.input_id.tolist() == ids
        if how.get("neg_sampling") == "triplet":
            ends = torch.stack([batch.src_index, batch.dst_pos_index])
        else:
            ends = batch.edge_label_index[:, :len(ids)]
        assert torch.equal(batch.n_id[ends], data.edge_index[:, ids])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert opened == {"sampler": 1, "loader": 0}
    if "neg_sampling" in how:  # khop's own rules for negatives
        own = pyg.LinkNeighborLoader(data, [4], data.edge_index[:, :40], seed=3, options={"strict": True}, **how)
        assert own([7, 3]).input_id.tolist() == [7, 3] and opened["loader"] == 1


def test_relbenchs_loader_of_links_runs_on_it(program, monkeypatch, opened):
    module = pytest.importorskip("relbench.modeling.loader", reason="relbench is not installed")
    rng, data = np.random.default_rng(7), HeteroData()
    data["user"].time, data["item"].time = torch.zeros(20, dtype=torch.int64), torch.zeros(30, dtype=torch.int64)
    data["buy"].time = torch.from_numpy(rng.integers(0, 100, 400))
    data["buy"].num_nodes = 400
    for end, count in (("user", 20), ("item", 30)):
        data[end].num_nodes = count
        data["buy", "f2p_" + end, end].edge_index = torch.from_numpy(
            np.stack([np.arange(400), rng.integers(0, count, 400)]))
        data[end, "rev_f2p_" + end, "buy"].edge_index = data["buy", "f2p_" + end, end].edge_index.flip(0)
    monkeypatch.setattr(module, "NeighborSampler", pyg.NeighborSampler)
    liked = torch.zeros(20, 30).index_put((torch.arange(20), torch.arange(20) + 5), torch.tensor(1.)).to_sparse_csr()
    loader = module.LinkNeighborLoader(
        data, [8, 8], ("user", torch.arange(20)), ("item", liked), 30, src_time=torch.arange(20) + 40, time_attr="time",
        batch_size=5)
    number = 0
    for src, positive, negative in loader:
        number += 1
        for out, of in ((src, "user"), (positive, "item"), (negative, "item")):
            assert len(out[of].seed_time) == 5 and "buy" in out.node_types
            trees = out["buy"].batch
            late = out["buy"].time > out[of].seed_time[trees]
            assert len(trees) and not late.any()
    assert number == 4 and opened == {"sampler": 1, "loader": 0}


def test_pygs_loader_for_questions_runs_on_it(data, monkeypatch, opened):
    rag = pytest.importorskip("torch_geometric.llm.rag_loader", reason="this PyG has no GraphRAG")
    module = pytest.importorskip("torch_geometric.llm.utils.graph_store")
    from torch_geometric.distributed.local_feature_store import LocalFeatureStore

    class Features(LocalFeatureStore):
        """Answers a question by the nodes that it names."""
        config = None

        def retrieve_seed_nodes(self, query):
            return torch.tensor(query), None

        def load_subgraph(self, sample):
            return Data(x=self.get_tensor(None, attr_name="x")[sample.node], n_id=sample.node, e_id=sample.edge,
                        edge_index=torch.stack([sample.row, sample.col]))

    monkeypatch.setattr(module, "BidirectionalNeighborSampler", pyg.BidirectionalNeighborSampler)
    features = Features()
    features.put_tensor(data.x, group_name=None, attr_name="x", index=None)
    graph = module.NeighborSamplingRAGGraphStore()
    graph.edge_index, graph.meta = data.edge_index, {"is_hetero": False}
    loader = rag.RAGQueryLoader((features, graph), config={"num_neighbors": [5, 5]})
    for question in ([3, 8], [1], [50, 60, 70]):
        answer = loader.query(question)
        assert set(question) <= set(answer.n_id.tolist()) and torch.equal(answer.x, data.x[answer.n_id])
        assert torch.equal(answer.n_id[answer.edge_index], graph.edge_index[:, answer.e_id])
    assert opened == {"sampler": 2, "loader": 0}
