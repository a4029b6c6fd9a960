// Package tempdir makes temporary folders that nobody has to tidy up.
//
// # Basics
//
// Make makes a folder and holds a lock of it, which ends with the process. Whoever makes the next one with the same
// prefix removes those that nobody holds: what processes have left that were killed.
//
// # What to mind
//
// Linux and macOS know such locks, on most file systems. Elsewhere folders of killed processes stay.
package tempdir
