"""What programs of bench/ops measure on, and with what settings."""
import os
import pathlib

# Of malloc: it keeps what it got, so that pages of results are warm.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(32 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}


def cnr_2000():
    """Where the web graph lies: indptr and indices of compressed rows."""
    return pathlib.Path(os.environ["KHOP_TESTDATA"]) / "cnr-2000-webgraph/derived/cnr-2000.csr.npz"


def edges_of_cnr_2000():
    """The web graph's edges [edges, 2], int64."""
    import numpy as np
    with np.load(cnr_2000()) as z:
        indptr, indices = z["indptr"].astype(np.int64), z["indices"].astype(np.int64)
    return np.stack([np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), indices], 1)


def ends(nodes, edges, exponent, seed):
    """One end of each edge: nodes in proportion to weights of a power law, or all alike."""
    import torch
    draw = torch.Generator().manual_seed(seed)
    if exponent is None:
        return torch.randint(0, nodes, (edges,), generator=draw)
    weights = torch.rand(nodes, generator=draw).double().clamp(min=1e-12).pow(-1 / (exponent - 1)).clamp(max=nodes)
    return torch.multinomial(weights.float(), edges, replacement=True, generator=draw)
