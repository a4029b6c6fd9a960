// Package relbench reads databases as RelBench's folders hold them: tables in Parquet with a manifest of their keys and
// times, and tables of tasks (Robinson et al., "RelBench: A Benchmark for Deep Learning on Relational Databases",
// NeurIPS 2024; manifests are those of its version 3).
//
// # Basics
//
// A table is a node type, and a row a node. A foreign key KEY makes two edge types: "f2p_KEY" from the row that has the
// key to the row that it names, and "rev_f2p_KEY" the other way, as RelBench calls them. Package tables does the work:
// the manifest becomes a mapping.
//
// Rows that are later than the manifest's test time are left out, so that nobody learns from what is to be predicted.
package relbench
