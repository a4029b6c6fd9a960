// Package graphbolt reads datasets of GraphBolt as they lie on the disk: a folder with metadata.yaml, whose graph lies
// in texts and arrays, or with preprocessed/metadata.yaml, whose graph is a sampling graph in one file.
//
// # Basics
//
// The graph of metadata.yaml is read where its files are there, with the edges in their order; else the preprocessed
// one. feature_data are columns, the sets of tasks splits and labels, or links to predict with their negatives; those
// of the second task have the index 1, and so on.
//
// # Safety
//
// Files of torch.save are parsed by package torch, and never executed. Paths lead to files within the folder alone.
package graphbolt
