// Package staged keeps datasets that lie elsewhere in a folder of this machine, the cache: whole, or as far as they
// have been brought. It knows files and chunks of them, and nothing of what they hold.
//
// # Basics
//
// Open makes the entry of a dataset, or finds it. An entry has each file of the dataset, of its full size, in its
// folder: what has not been brought is a hole, which takes no room. Files are brought by units: one is the head and the
// tail of a file, each chunk of its elements is one. Small ones of a source are brought together. What is brought has
// been compared with its checksum, where a manifest says one, and stays until nobody has the entry open and the cache
// needs room for another one.
//
//	CACHE/lock                  held while entries are made, removed, or given room
//	CACHE/KEY/lock              held, shared, by each process that has the entry open
//	CACHE/KEY/fill/0..63        each held while one of the units is brought that it is for
//	CACHE/KEY/index.json        the files and their chunks
//	CACHE/KEY/units             a byte for each unit: absent, reserved, or there
//	CACHE/KEY/data/...          the dataset
//
// # Processes
//
// Any number of processes share a cache. The system gives their locks back when they end, however that is. A unit is
// written, compared, brought to the disk, and then marked as there: who is killed on the way leaves it as it was, and
// the next one brings it again. No unit is brought twice at a time. An entry that a process has open is not removed.
//
// # Room
//
// The cache has a size, of which each unit takes its bytes when it is reserved. Where there is no room, entries that
// nobody has open are removed, those first that were opened longest ago. A chunk for which that makes no room is read
// all the same, and not kept (Entry.Read).
package staged
