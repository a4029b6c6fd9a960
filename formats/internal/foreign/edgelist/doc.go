// Package edgelist reads edge lists: text with an edge a line.
//
// # Basics
//
// Read goes over the text once and keeps the edges as numbers. It finds out from the first lines what it was given:
//
//   - the fields are separated by tabs, commas, semicolons or white space, whichever the first line with an edge has;
//   - lines that begin with #, % or // are comments; empty lines are skipped;
//   - the first line is a header if its fields are names of a source and a target (src,dst; from,to; id_1,id_2; ..), or
//     words where the lines below have numbers;
//   - the first two fields, or those that the header calls source and target, are ids; fields that the header or
//     Options.Columns names are columns of the edges: int64 if every value is an integer, else float64;
//   - ids are node numbers from 0, or, if they are words or have leading zeros, names, which are numbered as they first
//     appear.
//
// Options override each of these. Columns src:user and dst:item name the types of nodes at both ends: ids are then
// numbers, or names, of each type on its own. Files may be compressed by gzip or Zstandard.
//
// # Errors
//
// What does not fit what the first lines promised is an error with the number of the line, and not a guess: a line with
// another number of fields, a word among numbers, a negative id, a number that int64 cannot hold, a NaN weight, a line
// of more than MaxLine bytes, bytes that are no text. Numbers far beyond the number of edges are names in disguise: an
// error says how to have them numbered.
//
// # Caveats
//
// Node numbers say how many nodes there are: one more than the greatest. Nodes that no edge names get no edges.
package edgelist
