//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Run runs a command line of khop, and returns its exit status. The command sets it.
var Run func(arguments []string, stdout, stderr *os.File) int

// Main is the command, which takes os.Args and ends the process. The command sets it.
var Main func()

//export khop_main
func khop_main(count C.int32_t, arguments **C.char) C.int32_t {
	os.Args = os.Args[:0]
	for _, a := range unsafe.Slice(arguments, count) {
		os.Args = append(os.Args, C.GoString(a))
	}
	Main()
	return 0
}

// output is a file of Go's for a descriptor of the caller's; -1 is nowhere.
func output(fd C.int32_t) (*os.File, error) {
	if fd < 0 {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(own), "output"), nil
}

//export khop_run
func khop_run(arguments **C.char, count, out, err C.int32_t, status *C.int32_t, e *C.khop_error) C.int32_t {
	return call(e, func() (failed error) {
		if count < 0 || arguments == nil && count > 0 {
			return argument("%d arguments", count)
		}
		var files [2]*os.File
		for i, fd := range [2]C.int32_t{out, err} {
			if files[i], failed = output(fd); failed != nil {
				return failed
			}
			defer func() { failed = errors.Join(failed, files[i].Close()) }()
		}
		line := make([]string, count)
		for i, a := range unsafe.Slice(arguments, count) {
			line[i] = C.GoString(a)
		}
		*status = C.int32_t(Run(line, files[0], files[1]))
		return nil
	})
}
