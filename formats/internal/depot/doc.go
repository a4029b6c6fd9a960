// Package depot keeps the files through which the tasks of a conversion pass on what they have made: in a folder that
// all machines see, or in an object store.
//
// # Basics
//
// Of opens a depot: Folder and Store are the two kinds. Make lays its first files there, all or none. A task begins an
// Attempt, writes files to its folder, and publishes it: then its files are in the depot, under the attempt's name, and
// a small file says so that can be written once. Who is second learns it, and what he has made is removed.
//
// A folder takes an attempt's files where they are written, and links the small file to its place. A store gets them
// from a folder of the machine, and the small file by a request that is refused where there is one.
//
// # Reading
//
// A File is read at any place, from its beginning on, or by spans in their order. Of a store's, ranges are under way
// before they are asked for. What has another size than it had is formats.ErrCorrupt.
package depot
