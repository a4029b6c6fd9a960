// Package array reads arrays of foreign files: NumPy's .npy, and what tensors of other files are views of.
//
// # Basics
//
// A Header describes elements, a Reader hands them on some at a time: from a stream, a mapping or pieces of a file. An
// Array is elements in memory with strides. A Set is arrays by name, those of a folder or an archive.
//
// ReadHeader reads what precedes the elements of a .npy file, versions 1 to 3 of the format; ReadInts and ReadStrings
// read a whole array, in row-major order whatever the file has; Stream copies the elements in row-major order to a
// writer, in constant memory where the file is row-major itself.
//
// # Safety
//
// Files are hostile: the header is bounded and parsed by a strict grammar, no more is allocated than the file has given
// bytes for, and arrays of Python objects, which are pickled programs, are ErrObject and never looked into.
//
// The format is NEP 1 and numpy.lib.format of the NumPy documentation.
package array
