// Package arrayfile writes and reads the files of a dataset's arrays: Arrow IPC files of one record batch with one
// column, of numbers or strings, whose elements lie in one piece. docs/format.md is the specification.
//
// A Writer, or a StringWriter, takes the elements as a stream, in constant memory, and makes the checksums. Walk finds
// the elements in a file that is mapped. It checks every offset and allocates nothing by what a file says: files are
// hostile.
package arrayfile
