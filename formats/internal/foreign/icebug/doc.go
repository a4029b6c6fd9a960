// Package icebug reads graphs in the form icebug-disk, which Ladybug, the heir of Kuzu, exports and queries: Parquet
// files with the edges of each type in CSR, and a schema in Cypher (doc/spec.md of
// github.com/Ladybug-Memory/icebug-format).
//
// # Basics
//
// schema.cypher has a statement CREATE NODE TABLE or CREATE REL TABLE for each type. Nodes of type T are the rows of
// nodes_T.parquet. Edges of type E are the rows of indices_E.parquet, whose column "target" has numbers of rows;
// indptr_E.parquet has one number for each source, in the column "ptr", where its edges begin, and one for their end.
// Package tables does the work: the schema becomes a mapping. Properties become columns, a primary key the ids.
//
// The format lists edges by their sources. The builder of the dataset sorts them by their targets.
package icebug
