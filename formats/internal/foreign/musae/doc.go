// Package musae reads the MUSAE collections of page and user networks: a directory with X_edges.csv, X_features.json
// and X_target.csv.
//
// # Basics
//
// Edges are pairs of node numbers under a header, listed once and undirected. Features are a JSON object of node
// numbers and lists of feature numbers; a node has a 1 for each feature in its list and else 0, as float32, like the
// features of other collections. The target table has a row a node: "page_type", "ml_target" or, of Twitch, "mature"
// is its class; of Twitch "new_id" is the node. Class
// numbers follow the sorted names of the classes, which are kept as "class"; a column of names (page_name, name) is
// kept as "name".
//
// The collections are those of Rozemberczki, Allen and Sarkar, "Multi-Scale Attributed Node Embedding", Journal of
// Complex Networks 9(2), 2021.
//
// # Caveats
//
// The lists of features, not the dense rows, are held in memory: 4 bytes an entry.
package musae
