// Package source holds what the readers of foreign formats share: the Graph that they describe, the files that they
// open and the temporary room that they keep edges in.
//
// # Basics
//
// A reader makes a Graph: counts, and functions that yield edges, columns and names when they are asked, as often as
// they are asked. Package convert writes it as a dataset. Nothing large is held in memory: edges lie in an EdgeStore,
// which moves to a temporary file beside the target when it grows, and columns are streamed.
//
// Open opens a file, plain or compressed by gzip or Zstandard, as its first bytes say.
//
// # Caveats
//
// A Graph holds files and temporary room until Close. On Linux a temporary file has no name from the start, so that a
// process that is killed leaves nothing behind; elsewhere Close removes it.
package source
