"""The stage that fetches features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .pipes import MiniBatchTransformer, Stage, checked, stage
from .plan import NotByKhop, Plan


@stage("fetch_feature")
class FeatureFetcher(MiniBatchTransformer):
    """dgl.graphbolt.FeatureFetcher. The store is in memory, or belongs to a dataset, whose features come with the
    batches."""

    def __init__(self, datapipe: Any, feature_store: Any, node_feature_keys: Any = None, edge_feature_keys: Any = None,
                 **unknown: Any) -> None:
        checked(FeatureFetcher, unknown)
        super().__init__(datapipe, self._fetched)
        self.feature_store = feature_store
        self.node_feature_keys, self.edge_feature_keys = node_feature_keys, edge_feature_keys

    def describe(self, plan: Plan) -> None:
        """Has features of the sampled dataset come with batches; reads others here."""
        Stage.describe(self, plan)
        if plan.graph is None or getattr(self.feature_store, "graph", None) is not plan.graph:
            plan.then(self.fn)
            return
        if plan.features is not None:
            raise NotByKhop("features are fetched twice")
        if plan.after:
            raise NotByKhop("features are fetched after other stages")
        plan.features, plan.node_keys, plan.edge_keys = (
            self.feature_store, keys_by_type(self.node_feature_keys), keys_by_type(self.edge_feature_keys))

    def _fetched(self, minibatch: Any) -> Any:
        typed = isinstance(self.node_feature_keys, Mapping) or isinstance(self.edge_feature_keys, Mapping)
        if self.node_feature_keys and minibatch.input_nodes is not None:
            ids = minibatch.input_nodes if typed else {None: minibatch.input_nodes}
            minibatch.node_features = self._of("node", self.node_feature_keys, ids)
        else:
            minibatch.node_features = {}
        minibatch.edge_features = [{} for _ in range(minibatch.num_layers())]
        for layer in range(minibatch.num_layers() if self.edge_feature_keys else 0):
            found = minibatch.edge_ids(layer)
            if found is not None:
                minibatch.edge_features[layer] = self._of(
                    "edge", self.edge_feature_keys, found if typed else {None: found})
        return minibatch

    def _of(self, domain: str, keys: Any, ids: Any) -> dict[Any, Any]:
        return {name if t is None else (t, name): self.feature_store.read(domain, t, name, ids[t])
                for t, name in keys_by_type(keys) if ids.get(t) is not None}


def keys_by_type(keys: Any) -> list[tuple[Any, str]]:
    """Returns (type, name) of each feature to fetch; the type is None if there is only one."""
    if isinstance(keys, Mapping):
        return [(t, name) for t, wanted in keys.items() for name in wanted]
    return [(None, name) for name in keys or ()]
