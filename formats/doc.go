// Package formats reads and writes khop's dataset on disk: a directory of Arrow files and a manifest. docs/format.md is
// its specification.
//
// # Basics
//
// Create begins a dataset, the Writer's column writers take the arrays as streams of little-endian bytes, and Commit
// completes it. WriteGraph does all of that for a graph in memory. Memory in use does not depend on the length of a
// column.
//
// Open maps a dataset. It reads the manifest, each file's head and footer, and the two ends of indptr, so it takes the
// same time and memory for a kilobyte as for a terabyte. Check reads everything: checksums, order, ranges. Check files
// from other machines once: Open verifies the shape of the arrays, not their elements.
//
// # Safety
//
// A directory with a manifest is a complete dataset: the manifest is renamed into place last, when everything else is
// on the disk. A writer that dies leaves a directory with a marker file. Open refuses it with ErrIncomplete, and the
// next Create removes it. Create deletes only what the marker or the manifest names; a directory that holds anything
// else is refused.
//
// A complete dataset is replaced (WriterOptions.Force) in one step, by one that was written beside it. Whatever happens
// to the writer, Open finds either the old dataset or the new one, complete.
//
// Files are hostile until checked. The manifest is bounded in size and depth, its paths cannot leave the directory,
// heads and footers are verified by checksum and then walked with every offset checked. Damage is ErrCorrupt, with the
// file, the place and what to do; nothing panics.
//
// # Caveats
//
// Tensors and strings of a Dataset are valid until its Close. A mapped file that someone cuts short raises a fault when
// it is read: readers of elements run under pinned.Guard. Replacing a dataset unlinks its files and does not change
// them, so a process that has them mapped continues with the old ones.
package formats
