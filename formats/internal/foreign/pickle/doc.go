// Package pickle reads data out of Python's pickles without executing anything.
//
// # Basics
//
// A pickle is a program that may call any function of Python. Read goes over it with a machine of its own that knows
// the instructions which build numbers, strings, lists, dictionaries and the like, and a list of names that stand for
// data: NumPy's arrays and scalars, byte strings, ordered dictionaries. Any other name is ErrForbidden, at once.
// Nothing is ever called, imported or run.
//
// # Safety
//
// Pickles are hostile. Memory is bounded by the bytes that were read, and by the ledger; depth and sizes
// are bounded; what an instruction does not fit is ErrFormat.
//
// The format is that of PEP 307, PEP 3154 and PEP 574, and of Python's pickletools.
package pickle
