// Package arrays reads graphs that lie as NumPy arrays: the .npy files of a folder, or a single one with edges.
// Package npz has it read what an archive holds beside its known layouts.
//
// # Basics
//
// Arrays are known by their names, which collections spell in many ways:
//
//   - edges: edge_index, edges, edge_list, of the shape (2, edges) or (edges, 2), or src and dst of one dimension; of
//     the shape (2, 2) edge_index is sources and targets, and the others are two edges, which a note says;
//   - of nodes: node_feat, node_features, features, feat, x become "feature"; node_label, labels, label, y become
//     "label", int64, of which NaN is -1, no label;
//   - of edges: edge_weight, weight become "weight"; edge_time, time, timestamp, t become "time"; edge_attr, edge_feat
//     become "feature";
//   - splits: train, val (valid), test, with _mask, _masks, _idx, _index or nothing behind: masks over all nodes
//     (of one split, or of some: [splits, n] or [n, splits]), or lists;
//   - num_nodes: a number;
//   - names_X: texts, the list X of the nodes; names_id has their names, names_class those of classes.
//
// A graph of several types has folders: nodes/TYPE with the arrays of a node type, edges/SOURCE__RELATION__TARGET with
// those of an edge type.
//
// Any other array with a row a node, or a row an edge, is a column of its name; a note names the other arrays.
// Edges are stored as they are listed. All arrays are streamed, those of a folder straight from the mapped file.
package arrays
