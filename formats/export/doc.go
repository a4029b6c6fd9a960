// Package export writes a dataset in formats that other programs read.
//
// # Basics
//
// Run writes all of a dataset: edges with their columns, columns and names of nodes, splits and links. Formats are
// NumPy arrays in a folder, one archive of NumPy arrays by the names of PyG, a folder for GraphBolt, Parquet tables,
// and GraphAr's chunks. Edges are in the order of the dataset, with own ids, so converting an export gives an equal
// dataset.
//
// # Caveats
//
// Columns of a dtype that NumPy lacks are written as float32; so are those of 16-bit floats in Parquet. Files have
// other names until they are complete and on the disk; a run that fails removes them.
package export
