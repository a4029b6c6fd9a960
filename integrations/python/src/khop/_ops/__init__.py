"""Sparse products in place of torch's, PyG's and DGL's: what khop.sparse.patch puts in."""
