//go:build !amd64 || purego

package gather

import "unsafe"

// widenVectors is a variable for tests.
var widenVectors = false

func widenF16(*float32, unsafe.Pointer, int)                  {}
func widenBF16(*float32, unsafe.Pointer, int)                 {}
func widenInt8(*float32, unsafe.Pointer, int, float32)        {}
func widenInt4(*float32, unsafe.Pointer, int, unsafe.Pointer) {}
func halveF16(unsafe.Pointer, *float32, int)                  {}
func halveBF16(unsafe.Pointer, *float32, int)                 {}
