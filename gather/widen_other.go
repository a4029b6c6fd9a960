//go:build !amd64 || purego

package gather

import "unsafe"

// widenVectors is a variable for tests.
var widenVectors = false

func widenF16(*float32, unsafe.Pointer, int)           {}
func widenBF16(*float32, unsafe.Pointer, int)          {}
func widenInt8(*float32, unsafe.Pointer, int, float32) {}
