//go:build libkhop && cgo

package libkhop

/*
#include "khop.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// coded is an error with a code of its own.
type coded struct {
	code C.int32_t
	error
}

func (c *coded) Unwrap() error { return c.error }

// errAgain says that nothing is there yet. It costs its caller no text.
var errAgain = &coded{C.KHOP_AGAIN, errors.New("nothing is there yet")}

// argument returns an error of the code KHOP_ARGUMENT.
func argument(format string, args ...any) error {
	return Refused(fmt.Errorf(format, args...))
}

// Refused makes an error one of arguments that khop does not take, of the code KHOP_ARGUMENT.
func Refused(err error) error { return &coded{C.KHOP_ARGUMENT, err} }

// call runs a function of the library for C: it makes a code and a text of its error, and of a panic.
func call(e *C.khop_error, f func() error) (code C.int32_t) {
	defer func() {
		if p := recover(); p != nil {
			if os.Getenv("KHOP_DEBUG") != "" {
				fmt.Fprintf(os.Stderr, "khop: %v\n%s", p, debug.Stack())
			}
			code = tell(e, C.KHOP_BUG, fmt.Sprintf("internal error: %v. This is a bug; please report it", p))
		}
	}()
	err := f()
	if err == nil {
		return C.KHOP_OK
	}
	if err == error(errAgain) {
		return C.KHOP_AGAIN
	}
	code = C.KHOP_FAILED
	var c *coded
	if errors.As(err, &c) {
		code = c.code
	}
	return tell(e, code, err.Error())
}

// ErrorBytes is the room for the text of an error, with the zero at its end.
const ErrorBytes = len(C.khop_error{}.text)

// tell fills the caller's error.
func tell(e *C.khop_error, code C.int32_t, text string) C.int32_t {
	if e != nil {
		e.code = code
		room := unsafe.Slice((*byte)(unsafe.Pointer(&e.text)), len(e.text))
		text = strings.ToValidUTF8(text[:min(len(text), len(room)-1)], "")
		room[copy(room, text)] = 0
	}
	return code
}

// handles maps handles to what they stand for.
var handles struct {
	sync.RWMutex
	last C.khop_handle
	all  map[C.khop_handle]closer
}

// closer is what a handle stands for. Close is called once; other calls may still be under way.
type closer interface{ Close() error }

// open gives something a handle. The caller of the library closes it.
func open(t closer) C.khop_handle {
	handles.Lock()
	defer handles.Unlock()
	if handles.all == nil {
		handles.all = map[C.khop_handle]closer{}
	}
	handles.last++
	handles.all[handles.last] = t
	return handles.last
}

// thing returns what a handle stands for.
func thing[T closer](h C.khop_handle) (t T, err error) {
	handles.RLock()
	defer handles.RUnlock()
	t, ok := handles.all[h].(T)
	if !ok {
		return t, &coded{C.KHOP_CLOSED, fmt.Errorf("handle %d is closed, or of something else than %T", h, t)}
	}
	return t, nil
}

// with is call for a function of what a handle stands for.
func with[T closer](h C.khop_handle, e *C.khop_error, f func(T) error) C.int32_t {
	return call(e, func() error {
		t, err := thing[T](h)
		if err != nil {
			return err
		}
		return f(t)
	})
}

// Go's runtime makes the file descriptors of its poller when something first waits, and ends the process where none are
// left. With this it makes them while the library is loaded, before which its caller can look (khop.h).
func init() { time.AfterFunc(0, func() {}) }

// khop_abi and all functions with such names are documented in khop.h.
//
//export khop_abi
func khop_abi() C.int32_t { return C.KHOP_ABI }

// Version is khop's. The command sets it.
var Version string

var version = sync.OnceValue(func() *C.char { return C.CString(Version) })

//export khop_version
func khop_version() *C.char { return version() }

//export khop_close
func khop_close(h C.khop_handle, e *C.khop_error) C.int32_t {
	return with(h, e, func(t closer) error {
		handles.Lock()
		delete(handles.all, h)
		handles.Unlock()
		return t.Close()
	})
}
