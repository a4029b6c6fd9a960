// Package ogb reads datasets as the Open Graph Benchmark keeps them on the disk: a folder with raw/, split/ and
// mapping/.
//
// # Basics
//
// raw/edge.csv.gz lists the edges, raw/num-node-list.csv.gz says how many nodes there are; node-feat, node-label and
// edge-feat are columns, split/*/{train,valid,test} are splits: lists of nodes, or, for links, files of torch.save with
// the edges to predict ("edge", or "source_node" and "target_node") and those that are given as false ("edge_neg").
// The first table of mapping/ names the nodes. OGB adds the reverse of each edge for the datasets that it calls
// undirected; those are known by the folder's name.
//
// Of several types there are raw/num-node-dict.csv.gz, raw/triplet-type-list.csv.gz, and a folder for each edge type
// below raw/relations. Datasets that OGB calls binary have raw/data.npz in place of tables.
//
// # Safety
//
// Files of torch.save are pickles: they are parsed by package pickle, and never executed.
package ogb
