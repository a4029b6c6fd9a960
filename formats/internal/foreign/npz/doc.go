// Package npz reads graphs from NumPy's .npz archives.
//
// # Basics
//
// Three layouts are known:
//
//   - sparse: the adjacency matrix as CSR in adj_matrix.{data,indices,indptr,shape}, features as CSR in attr_matrix.*,
//     labels, names (also spelt adj_data, attr_data, ..; the layout of the SparseGraph collections). Row i, column j is
//     the edge i -> j: j has the in-neighbour i. Edges are listed row by row. Entries other than 1 are stored as
//     "weight".
//   - csr: indptr and indices alone, perhaps with data and shape (scipy.sparse.save_npz);
//   - by name: edge_index, edges, or src and dst, as package arrays knows them. Each edge of an array "edges" is listed
//     once and goes both ways (the layout of the heterophilous graphs).
//
// Features, labels, masks and other arrays of any layout with a row a node or an edge become columns and splits, as
// package arrays says; what has no meaning is named in a note. Edges, matrices and features are streamed, in
// constant memory.
//
// Features become float32 rows; those of a sparse matrix are made dense as they are written, row by row. Labels become
// int64, masks become splits.
//
// # Safety
//
// Archives are hostile: sizes are believed only as far as bytes arrive, indices and pointers are checked before they
// are used, and arrays of Python objects are skipped with a note, never executed.
package npz
