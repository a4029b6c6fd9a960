// Package transaction writes the directory of a dataset so that it is whole at any time. Everything that makes,
// replaces or extends a dataset comes through Begin.
//
// # Basics
//
// Begin claims a directory. Tx.Create makes its files, Tx.Keep takes over files of the directory that is replaced, and
// Commit writes the manifest, by which the directory is complete. Abort leaves all as it was.
//
// Where nothing is replaced, the files are written in the directory itself, and the manifest is renamed into place when
// all else is on the disk. A marker file stands there until then. It is locked, and it names each file before the file
// is made: the next Begin clears away exactly what a writer that died has left.
//
// A complete directory is replaced by one that is written whole beside it. <name>.khop-new is the workspace: a
// directory with a marker, whose lock keeps other writers away. The new directory is written to new/ there. When it is
// on the disk, it and the old one exchange names in one step; the old one is then in the workspace, and goes with it.
// Where the system cannot exchange, the old one is in old/ for a moment, by renaming or, in the lower layer of an
// overlay, by copying: a reader that finds nothing complete looks there (Kind.Read), and the next writer puts it back.
//
// # Caveats
//
// A Tx is for one goroutine at a time. Whoever writes to a file syncs and closes it before Commit.
package transaction
