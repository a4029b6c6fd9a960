// Package npy reads NumPy's .npy arrays, versions 1 to 3 of the format.
//
// # Basics
//
// ReadHeader reads what precedes the elements; ReadElements reads a whole array into memory, in row-major order and the
// machine's byte order whatever the file has; Stream copies the elements in row-major order to a writer, in constant
// memory where the file is row-major itself. Ints, Strings and Tensor give a whole array's elements.
//
// # Safety
//
// Files are hostile: the header is bounded and parsed by a strict grammar, no more is allocated than the file has given
// bytes for, and arrays of Python objects, which are pickled programs, are ErrObject and never looked into.
//
// The format is NEP 1 and numpy.lib.format of the NumPy documentation.
package npy
