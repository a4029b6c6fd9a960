// Package torch reads files of torch.save without executing anything: the value as package pickle reads it, and its
// tensors, which lie outside of the pickle. Its Reader reads graphs of PyTorch Geometric: Data, HeteroData, and the
// processed file of an InMemoryDataset of one graph.
//
// # Basics
//
// Both layouts are read: the zip archive that torch has written since 1.6, and the one before. Storages are mapped and
// streamed from where they lie; a tensor may be any view of one.
//
// Attributes are known by their names (package arrays): edge_index, x, y, edge_attr, train_mask, .. What else has a row
// a node or an edge is a column of its name.
//
// # Safety
//
// Files are hostile. Offsets, strides and sizes are compared with the bytes that are there before they are used.
package torch
