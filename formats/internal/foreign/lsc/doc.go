// Package lsc reads the folders of memory-mapped arrays that very large datasets come as: MAG240M of OGB-LSC, and IGB.
//
// # Basics
//
// A folder SOURCE___RELATION___TARGET (two or three underscores) with edge_index.npy holds the edges of a type; a
// folder beside it, named by a node type, holds node_feat.npy, node_label.npy, node_year.npy and the like. All of them
// are mapped and streamed. meta.pt and split_dict.pt beside the folder of these, as in MAG240M, give the numbers of
// nodes and the training split.
//
// IGB has labels of 19 classes and of 2,983: the first become "label", the others "node_label_2k". Its two largest
// sizes have arrays of nodes without NumPy's header: float32, 1,024 a row of features, one a row of labels.
//
// # IGB's own loader
//
// The igb package (dataloader.py) reads the same files: pairs of source and target in the rows of edge_index.npy, the
// types as folders name them. It adds three things that no file says, and this package does not: it drops self-loops of
// papers and gives each paper one; it splits papers 60, 20 and 20 % in the order of their numbers; and by default it
// turns all types but "cites" around. "khop convert --self-loops", "khop add --split" and sampling along "out" do so.
// The numbers that nodes had before are a pickled dictionary (paper_id_index_mapping.npy), which is named in a note.
package lsc
