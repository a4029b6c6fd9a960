"""Options that khop.Loader hands on to khop: names and types, as Go declares them, which knows defaults and
meanings."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, TypedDict, Union

Fanouts = Union[Sequence[int], Mapping[Any, Sequence[int]]]
"""Neighbours a hop, or such by edge type: a relation, a triple, or "*" for all others."""


class SamplerOptions(TypedDict, total=False):
    """Options of samplers beside fanouts. khop knows what each sampler takes, and the defaults (khop samplers)."""

    frontier: str  # neighbor, temporal, labor: "new", "all"
    replace: bool  # neighbor, temporal, shadow
    disjoint: bool  # neighbor, temporal
    weight: str  # neighbor, temporal, fastgcn, ladies: a column of the edges, as mask and time
    mask: str  # neighbor, temporal
    share: float  # neighbor, temporal
    together: bool  # neighbor, temporal
    direction: str  # neighbor, temporal: "in", "out", "both"
    induced: bool  # neighbor
    time: str  # temporal
    node_time: str  # temporal
    time_rules: Sequence[str]  # temporal: "not-after", "before", "any"
    window: int  # temporal
    recent: bool  # temporal
    half_life: float  # temporal
    chain: bool  # temporal
    as_of: int  # temporal
    length: int  # walk, saint-walk, pinsage, node2vec
    walks: int  # walk, pinsage, node2vec: a seed
    restart: float  # walk, pinsage
    stop: float  # walk, pinsage
    metapath: Sequence[str]  # walk, pinsage
    walk_edges: bool  # walk, node2vec
    budget: int  # saint-node, saint-edge, saint-walk
    steps: int  # the same
    coverage: int  # the same
    partition: str  # cluster: a file
    clusters: int  # cluster
    work: int  # full
    neighbors: int  # pinsage, ppr
    hops: int  # pinsage
    alpha: float  # ppr
    epsilon: float  # ppr
    edge_type: str  # pinsage, ppr
    p: float  # node2vec
    q: float  # node2vec
    poisson: bool  # labor
    layer_dependent: bool  # labor
    batch_dependency: int  # labor
    layer_nodes: Fanouts  # fastgcn, ladies; hgt: also a mapping of node types


class LoaderOptions(SamplerOptions, total=False):
    """Options of seeds, batches and columns, of links and of columns on disk, beside those of samplers."""

    sampler: str
    split: int
    batch_size: int
    drop_last: bool
    shuffle: bool
    instance: int
    node_columns: Optional[Sequence[str]]
    seed_columns: Optional[Sequence[str]]
    edge_columns: Optional[Sequence[str]]
    edge_pos: bool
    workers: int
    prefetch: int
    hold: int
    verify: bool
    widen: bool
    max_memory: Optional[Union[int, str]]
    remainder: str  # "pad", "drop", "short"
    residence: str  # "mapped", "resident", "disk", "auto"
    cache_bytes: Union[int, str]  # rows that "disk" keeps: 10**9, "1GB"
    lookahead: int  # batches that "disk" samples ahead
    pack: Union[int, str]  # bytes of a temporary file in which "disk" lays out rows of batches ahead
    link_label: str
    link_time: str
    negatives: str  # "none", "uniform", "degree", "weight", "batch"
    negative_ratio: float
    corrupt: str  # "target", "source", "either", "both"
    negative_weight: str
    negative_time: str
    strict: bool
    negative_tries: int
    triplets: bool
    exclude_seeds: str  # "none", "seeds", "reverse"
