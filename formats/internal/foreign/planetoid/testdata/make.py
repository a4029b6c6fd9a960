"""Writes a small graph as Planetoid does, by scipy and pickle. Run it in this folder."""
import collections
import pickle

import numpy as np
import scipy.sparse as sp

allx = sp.csr_matrix(np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [1, 1, 1]], np.float32))
tx = sp.csr_matrix(np.array([[0, 0, 5], [6, 0, 0]], np.float32))
ally = np.eye(2, dtype=np.int32)[[0, 1, 1, 0]]
graph = collections.defaultdict(list, {0: [1, 1, 3], 1: [0, 1], 3: [0, 6], 4: [6], 6: [4, 3, 3], 5: []})
for name, value in {"x": allx[:2], "y": ally[:2], "tx": tx, "ty": np.eye(2, dtype=np.int32)[[1, 0]], "allx": allx,
                    "ally": ally, "graph": graph}.items():
    with open("ind.tiny." + name, "wb") as f:
        pickle.dump(value, f, protocol=2)
with open("ind.tiny.test.index", "w") as f:
    f.write("6\n4\n")
