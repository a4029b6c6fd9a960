// Package dgl reads graphs that people have for DGL: CSVDataset, a folder with meta.yaml that names tables of nodes and
// edges, and what dgl.save_graphs writes.
//
// # Saved graphs
//
// BinReader reads a file of one graph with its types and the tensors of its nodes and edges, version 2 of the format,
// which DGL writes since 0.5. The file is mapped: edges and tensors are streamed from where they lie, in whichever of
// the formats coo, csr and csc the edges are stored. Labels of whole graphs are left out, with a note.
//
// # Tables
//
// meta.yaml becomes a mapping of package tables, which reads the tables. Columns graph_id are left out: a dataset is
// one graph. Nodes are in the order of their rows, where DGL orders them by their ids. Numbers are stored as they
// are written: DGL makes float32 of all that are not whole.
package dgl
