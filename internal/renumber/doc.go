// Package renumber finds orders of a graph's nodes, and says by a model of caches and pages what one costs batches.
//
// An order is a list of the old numbers: the node that gets the number i is order[i].
package renumber
