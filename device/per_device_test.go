package device

import (
	"errors"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

type closer struct{ closed int }

func (c *closer) Close() error { c.closed++; return nil }

func TestWhatIsSharedIsMadeOncePerOrdinalAndClosedByTheLast(t *testing.T) {
	newFake(t)
	var devices [3]*Device
	for i, ordinal := range []int{0, 0, 1} {
		d := expect.Must(Open(ordinal))(t)
		defer d.Close()
		devices[i] = d
	}
	var s PerDevice[*closer]
	loads := 0
	load := func(*Device) (*closer, error) { loads++; return &closer{}, nil }
	var held [3]*closer
	for i, d := range devices {
		held[i] = expect.Must(s.Hold(d, load))(t)
	}
	expect.That(t, loads == 2 && held[0] == held[1] && held[1] != held[2], "%d loads, %p %p %p", loads, held[0],
		held[1], held[2])
	for i, closed := range []int{0, 1, 1} {
		err := s.LetGo(devices[i])
		expect.That(t, err == nil && held[i].closed == closed, "after %d: closed %d times, %v", i, held[i].closed, err)
	}
	_, err := s.Hold(devices[0], load)
	expect.That(t, err == nil && loads == 3, "%d loads, %v", loads, err)
	expect.OK(t, s.LetGo(devices[0]))
}

func TestWhatCannotBeSharedIsTriedAgain(t *testing.T) {
	newFake(t)
	d := expect.Must(Open(0))(t)
	defer d.Close()
	var s PerDevice[*closer]
	refused := errors.New("refused")
	_, err := s.Hold(d, func(*Device) (*closer, error) { return nil, refused })
	expect.That(t, errors.Is(err, refused), "%v", err)
	_, err = s.Hold(d, func(*Device) (*closer, error) { return &closer{}, nil })
	expect.That(t, err == nil, "%v", err)
	expect.OK(t, s.LetGo(d))
}

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
