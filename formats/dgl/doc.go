// Package dgl reads graphs that people have for DGL: CSVDataset, a folder with meta.yaml that names tables of nodes and
// edges.
//
// # Basics
//
// meta.yaml becomes a mapping of package tables, which reads the tables. Columns graph_id are left out: a dataset is
// one graph. Nodes are in the order of their rows, where DGL orders them by their ids. Numbers are stored as they
// are written: DGL makes float32 of all that are not whole.
package dgl
