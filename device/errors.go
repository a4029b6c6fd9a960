package device

import (
	"errors"
	"fmt"
	"slices"
)

// ErrNoDevice says that there is no usable CUDA device. Errors that wrap it say why; so does Reason.
var ErrNoDevice = errors.New("no CUDA device")

// ErrClosed is returned by a call on a device, stream, event, module or graph that was closed.
var ErrClosed = errors.New("already closed")

// The classes of driver errors that callers act on, for errors.Is. Each stands for one or more of the driver's codes.
// Test for any other by its code: errors.Is(err, &Error{Code: 801}).
var (
	ErrOutOfMemory error = &class{"out of memory", []int{2}}
	// ErrDeviceLost is a fault that ends the context. Every later call on the device fails with it too.
	ErrDeviceLost error = &class{"device lost", lostCodes}

	errInvalidImage error = &class{"kernel image does not load", []int{200, 209, 218, 221, 222, 223, 300}}
)

// result is a CUresult.
type result int

// The driver's codes that this package acts on or makes itself.
const (
	success            = 0
	codeInvalidValue   = 1
	codeNoDevice       = 100
	codeNoPeer         = 217
	codeNotReady       = 600
	codeReached        = 704 // the peer may be reached already
	codeHostRegistered = 712
	codeNotRegistered  = 713
	codeNotSupported   = 801
	codeUnknown        = 999 // the device may be lost, or not: primary.force asks
)

// lostCodes: uncorrectable ECC and NVLink errors, contained ones, illegal address, launch timeout, destroyed context,
// assert, hardware stack error, illegal instruction, misaligned address, invalid address space, invalid pc, launch
// failure, tensor memory that leaks, an MPS server that went, is full or ended this client (six codes).
var lostCodes = []int{214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
	805, 806, 807, 808, 809, 810}

type class struct {
	text  string
	codes []int
}

func (c *class) Error() string { return "cuda: " + c.text }

// Error is an error that the driver returned.
type Error struct {
	Op         string // the call, with its sizes, such as "allocate 4096 bytes"
	Code       int    // CUresult
	Name, Text string // the driver's, such as CUDA_ERROR_OUT_OF_MEMORY and "out of memory"

	lost bool // the device answers so to whatever is asked
}

func (e *Error) Error() string {
	return fmt.Sprintf("cuda: %s: %s (%d): %s", e.Op, e.Name, e.Code, e.Text)
}

// Is reports whether target is the class of e's code, such as ErrOutOfMemory, or an Error of the same code.
func (e *Error) Is(target error) bool {
	switch target := target.(type) {
	case *class:
		return slices.Contains(target.codes, e.Code) || e.lost && target == ErrDeviceLost
	case *Error:
		return target.Code == e.Code
	}
	return false
}

// failure makes an error of a driver's answer, nil of success.
func failure(op string, code result) error {
	if code == success {
		return nil
	}
	name, text := drv.describe(code)
	return &Error{Op: op, Code: int(code), Name: name, Text: text}
}
