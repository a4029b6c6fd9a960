// Package libkhop is khop in the process of another language: functions for C, which khop.h declares and documents.
//
// # Basics
//
// The default build has none of it. With the tag libkhop, cgo and -buildmode=c-shared the command khop becomes a
// shared library with these functions (tools/libkhop.sh). The package for Python loads it.
//
// A function for C is a line of cgo around a function in Go that returns an error:
//
//	//export khop_example
//	func khop_example(h C.khop_handle, e *C.khop_error) C.int32_t {
//		return with(h, e, func(t *Example) error {
//			...
//		})
//	}
//
// # Caveats
//
// Nothing of Go's may be handed out as a pointer: things have handles (open, thing), and memory that the caller reads
// is outside the Go heap. What C hands in is valid during the call only.
package libkhop
