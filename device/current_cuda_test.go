//go:build cuda && cgo && linux && (amd64 || arm64)

package device

import (
	"errors"
	"runtime"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"gorgonia.org/cu"
)

// TestProgramsOwnContextStaysCurrent: calls work beside a context of the program's, and leave it the thread's current
// one.
func TestProgramsOwnContextStaysCurrent(t *testing.T) {
	d := expect.Must(Open(0))(t)
	defer d.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	use := func(what string, want cu.CUContext) {
		t.Helper()
		a, err := d.Alloc(64)
		if err == nil {
			var s *Stream
			if s, err = d.NewStream(); err == nil {
				err = errors.Join(s.Fill32(a.Address(), 1, 16), s.Synchronize(), s.Close())
			}
			err = errors.Join(err, a.Close())
		}
		if _, e := d.Alloc(1 << 44); !errors.Is(e, ErrOutOfMemory) { // a call that fails gives back as well
			t.Errorf("%s: 2^44 bytes are allocated: %v", what, e)
		}
		expect.Is(t, err, nil, what)
		if now, err := cu.CurrentContext(); now != want || err != nil {
			t.Errorf("%s: context %v is current afterwards, not %v; %v", what, now, want, err)
		}
	}
	use("no context", cu.CUContext{})
	device := expect.Must(cu.GetDevice(0))(t)
	own, err := device.MakeContext(0) // current from now on
	expect.OK(t, err)
	use("a context of the program's", own)
	expect.OK(t, own.Destroy())
	expect.OK(t, cu.PushCurrentCtx(in[cu.CUContext](d.context)))
	use("the device's context", in[cu.CUContext](d.context))
	if _, err := cu.PopCurrentCtx(); err != nil {
		t.Error(err)
	}
	use("none again", cu.CUContext{})
}
