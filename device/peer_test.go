package device

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestADeviceReachesAnotherOnlyWhereTheDriverLetsIt(t *testing.T) {
	f := newFake(t)
	var both [2]*Device
	for i := range both {
		d := expect.Must(Open(i))(t)
		defer d.Close()
		both[i] = d
	}
	near, far := both[0], both[1]
	for name, c := range map[string]struct {
		can    bool
		answer result
		want   error
		says   string
	}{
		"no way between them":  {false, success, &Error{Code: codeNoPeer}, "cuda:0 at the memory of cuda:1"},
		"refused all the same": {true, codeNoPeer, &Error{Code: codeNoPeer}, "217"},
		"allowed":              {true, success, nil, ""},
		"again":                {true, codeReached, nil, ""},
	} {
		f.can, f.fail = c.can, map[string]result{"reach": c.answer}
		err := near.Reach(far)
		expect.Says(t, err, c.want, c.says, name)
	}
	before := f.calls["reach"]
	err := near.Reach(near)
	expect.That(t, err == nil && f.calls["reach"] == before, "a device asks the driver for its own memory: %v", err)
}
