package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestReasonSaysWhyThereIsNoDevice(t *testing.T) {
	for name, test := range map[string]struct {
		driver *fake
		reason string
	}{
		"no driver":         {&fake{why: "no CUDA driver: libcuda.so.1: not there"}, "libcuda.so.1"},
		"driver too old":    {&fake{ver: 11040, devices: 1}, "it supports CUDA 11.4, 11.8 is needed"},
		"oldest driver":     {&fake{ver: 11080, devices: 1}, ""},
		"no device":         {&fake{ver: 12040, fail: map[string]result{"count": codeNoDevice}}, "reports no device"},
		"version not known": {&fake{fail: map[string]result{"version": 999}}, "CUDA_ERROR_999"},
		"count fails":       {&fake{ver: 12040, devices: 3, fail: map[string]result{"count": 999}}, "CUDA_ERROR_999"},
	} {
		t.Run(name, func(t *testing.T) {
			test.driver.use(t)
			if got := Reason(); !strings.Contains(got, test.reason) || (got == "") != (test.reason == "") {
				t.Errorf("the reason is %q", got)
			}
			if test.reason == "" {
				return
			}
			if Count() != 0 {
				t.Errorf("%d devices are counted", Count())
			}
			_, err := Open(0)
			if !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), test.reason) {
				t.Errorf("Open says %v", err)
			}
		})
	}
}

func TestOpenRefusesWhatIsNotThere(t *testing.T) {
	f := newFake(t)
	for _, ordinal := range []int{-1, 2} {
		if _, err := Open(ordinal); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "reports 2") {
			t.Errorf("cuda:%d: %v", ordinal, err)
		}
	}
	f.compute = 61
	if _, err := Open(0); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "Fake 0") ||
		!strings.Contains(err.Error(), "6.1") {
		t.Errorf("an old device: %v", err)
	}
	f.compute, f.fail = 90, map[string]result{"retain": 2}
	if _, err := Open(0); !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrNoDevice) {
		t.Errorf("a device without room: %v", err)
	}
}

func TestContextIsRetainedOnceAndReleasedWithTheLastClose(t *testing.T) {
	f := newFake(t)
	first := expect.Must(Open(1))(t)
	second := expect.Must(Open(1))(t)
	if f.retained != 1 || first.Ordinal() != 1 || first.Name() != "Fake 1" || first.SMs() != 132 {
		t.Errorf("retained %d times; cuda:%d %s with %d SMs", f.retained, first.Ordinal(), first.Name(), first.SMs())
	}
	for range 2 { // the second time does nothing
		if err := first.Close(); err != nil || f.retained != 1 {
			t.Errorf("%v, retained %d times", err, f.retained)
		}
	}
	if _, err := first.Alloc(1); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed device allocates: %v", err)
	}
	if err := second.Synchronize(); err != nil {
		t.Errorf("the other device of the same context: %v", err)
	}
	if err := second.Close(); err != nil || f.retained != 0 {
		t.Errorf("%v, retained %d times", err, f.retained)
	}
}

func TestDeviceIsLostFromTheFirstFaultOn(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	s := expect.Must(d.NewStream(PriorityLow))(t)
	held := expect.Must(d.Alloc(1))(t)
	if err := d.Lost(); err != nil {
		t.Fatalf("lost before anything happened: %v", err)
	}
	f.fail = map[string]result{"syncStream": 700, "free": 700, "closeStream": 700, "release": 700}
	if err := s.Synchronize(); !errors.Is(err, ErrDeviceLost) {
		t.Fatalf("an illegal address is %v", err)
	}
	before := f.calls["alloc"]
	_, err := d.Alloc(64)
	if !errors.Is(err, ErrDeviceLost) || !strings.Contains(err.Error(), "CUDA_ERROR_700") ||
		f.calls["alloc"] != before {
		t.Errorf("later: %v; the driver was asked %d times", err, f.calls["alloc"]-before)
	}
	if !errors.Is(d.Lost(), ErrDeviceLost) {
		t.Errorf("Lost is %v", d.Lost())
	}
	for what, err := range map[string]error{"free": held.Close(), "close stream": s.Close(),
		"close device": d.Close()} {
		if err != nil {
			t.Errorf("%s on a lost device: %v", what, err)
		}
	}
	f.fail = nil
	again, err := Open(0)
	if err != nil || again.Lost() != nil {
		t.Errorf("opened again: %v, lost: %v", err, again.Lost())
	}
	again.Close()
}

func TestEveryFaultLosesTheDevice(t *testing.T) {
	f := newFake(t)
	// As cuda.h numbers them: uncorrectable ECC and NVLink errors, illegal address, launch timeout, context destroyed,
	// assert, hardware stack error, illegal instruction, misaligned address, invalid address space, invalid pc, launch
	// failed, tensor memory leak, six of MPS, unknown.
	for _, code := range []result{214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721,
		805, 806, 807, 808, 809, 810, 999} {
		d := expect.Must(Open(0))(t)
		f.fail = map[string]result{"synchronize": code, "queryStream": code}
		if err := d.Synchronize(); !errors.Is(err, ErrDeviceLost) || !errors.Is(d.Lost(), ErrDeviceLost) {
			t.Errorf("code %d: %v", code, err)
		}
		f.fail = nil
		d.Close()
	}
}

func TestOrdinaryErrorsAreNotFinal(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	defer d.Close()
	f.fail = map[string]result{"alloc": 2}
	_, err := d.Alloc(1 << 40)
	if !errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrDeviceLost) {
		t.Errorf("%v", err)
	}
	want := "cuda: allocate 1099511627776 bytes on cuda:0: CUDA_ERROR_2 (2): so the fake says"
	if e := (*Error)(nil); !errors.As(err, &e) || e.Code != 2 || err.Error() != want {
		t.Errorf("%v", err)
	}
	f.fail = map[string]result{"alloc": codeUnknown} // a device that is lost answers so to other calls, too
	if _, err = d.Alloc(1); err == nil || errors.Is(err, ErrDeviceLost) || d.Lost() != nil {
		t.Errorf("%v", err)
	}
	f.fail = nil
	if _, err := d.Alloc(1); err != nil {
		t.Errorf("after it: %v", err)
	}
	if _, err := d.Alloc(-1); !errors.Is(err, ErrInvalidValue) {
		t.Errorf("less than nothing: %v", err)
	}
	if a, err := d.Alloc(0); err != nil || a.Address() != 0 || a.Close() != nil {
		t.Errorf("nothing: %v, %v", a, err)
	}
}

func TestThreadKeepsItsCurrentContext(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	defer d.Close()
	const own, others = 100, 999
	for _, test := range []struct {
		before handle
		fail   map[string]result
		asked  int // of the driver besides the call itself
		call   int
	}{
		{before: own, asked: 1, call: 1},
		{before: 0, asked: 3, call: 1},
		{before: others, asked: 3, call: 1},
		{before: others, asked: 3, call: 1, fail: map[string]result{"synchronize": 1}},
		{before: others, asked: 1, call: 0, fail: map[string]result{"current": 201}},
		{before: others, asked: 2, call: 0, fail: map[string]result{"push": 201}},
	} {
		f.thread, f.fail = test.before, test.fail
		clear(f.calls)
		if err := d.Synchronize(); (err != nil) != (test.fail != nil) {
			t.Errorf("%+v: %v", test, err)
		}
		if f.thread != test.before {
			t.Errorf("%+v: context %d is current afterwards", test, f.thread)
		}
		if asked := f.calls["current"] + f.calls["push"] + f.calls["pop"]; asked != test.asked ||
			f.calls["synchronize"] != test.call {
			t.Errorf("%+v: the driver is called %v", test, f.calls)
		}
	}
}

func TestNotReadyIsNoError(t *testing.T) {
	f := newFake(t)
	d, _ := Open(0)
	defer d.Close()
	s, _ := d.NewStream(PriorityHigh)
	for code, want := range map[result]bool{success: true, codeNotReady: false} {
		f.fail = map[string]result{"queryStream": code}
		if done, err := s.Query(); done != want || err != nil {
			t.Errorf("code %d: %v, %v", code, done, err)
		}
	}
	s.Close()
	if _, err := s.Query(); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed stream: %v", err)
	}
}

func TestRegisteringIsCountedByRange(t *testing.T) {
	f := newFake(t)
	first, _ := Open(0)
	second, _ := Open(1)
	memory := make([]byte, 1<<16)
	expect.OK(t, errors.Join(first.Register(memory, 0), second.Register(memory, 0)))
	if f.calls["register"] != 1 {
		t.Errorf("the driver was asked %d times", f.calls["register"])
	}
	if err := second.Register(memory[4096:8192], 0); !errors.Is(err, ErrHostRegistered) {
		t.Errorf("a part of it: %v", err)
	}
	if err := second.Register(memory[:4096], 0); !errors.Is(err, ErrHostRegistered) {
		t.Errorf("its beginning: %v", err)
	}
	if err := second.Unregister(memory[:4096]); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("unregistering a part: %v", err)
	}
	if err := first.Register(nil, 0); err != nil || f.calls["register"] != 3 {
		t.Errorf("nothing: %v", err)
	}
	// The device that registered first may go first: the registration holds its context.
	if err := errors.Join(first.Unregister(memory), first.Close()); err != nil || f.retained != 2 ||
		f.calls["unregister"] != 0 {
		t.Errorf("%v; %d contexts, %d unregistered", err, f.retained, f.calls["unregister"])
	}
	if err := second.Unregister(memory); err != nil || f.retained != 1 || f.calls["unregister"] != 1 {
		t.Errorf("%v; %d contexts, %d unregistered", err, f.retained, f.calls["unregister"])
	}
	if err := second.Unregister(memory); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("once too often: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefusedRegistrationLeavesNothing(t *testing.T) {
	f := newFake(t)
	d, _ := Open(0)
	f.fail = map[string]result{"register": codeNotSupported}
	if err := d.Register(make([]byte, 4096), RegisterReadOnly); !errors.Is(err, ErrNotSupported) {
		t.Errorf("%v", err)
	}
	if err := d.Close(); err != nil || f.retained != 0 {
		t.Errorf("%v, %d contexts", err, f.retained)
	}
}

func TestManyGoroutinesOpenAndClose(t *testing.T) {
	f := newFake(t)
	memory := make([]byte, 4096)
	var group sync.WaitGroup
	for range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 50 {
				d, err := Open(0)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(d.Register(memory, 0), d.Synchronize(), d.Unregister(memory),
					d.Close()); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	group.Wait()
	if f.retained != 0 || len(f.registered) != 0 {
		t.Errorf("%d contexts and %d registrations are left", f.retained, len(f.registered))
	}
}

func TestMemoryIsTracedWithoutOpeningOtherDevices(t *testing.T) {
	f := newFake(t)
	f.home = 1
	user := expect.Must(Open(1))(t)
	d := expect.Must(OpenAt(4096))(t)
	if d.Ordinal() != 1 || f.calls["retain"] != 1 {
		t.Errorf("found cuda:%d, with %d contexts", d.Ordinal(), f.calls["retain"])
	}
	f.home = 0
	other, err := OpenAt(4096)
	if err != nil || other.Ordinal() != 0 {
		t.Fatal(other, err)
	}
	if err := errors.Join(user.Close(), d.Close(), other.Close()); err != nil || f.retained != 0 {
		t.Error(err, f.retained)
	}
}

// Another process may count other devices, so a device also has a name that all processes give it.
func TestADeviceIsNamedByItsUUID(t *testing.T) {
	f := newFake(t)
	for ordinal, want := range []string{"GPU-1a000000-2b00-3c00-4d00-5e0000000000",
		"MIG-1a000000-2b00-3c00-4d00-5e0000000001"} {
		d := expect.Must(Open(ordinal))(t)
		if d.UUID() != want || Named(want) != ordinal {
			t.Errorf("cuda:%d is %s, and %s is cuda:%d", ordinal, d.UUID(), want, Named(want))
		}
		d.Close()
	}
	if n := Named("GPU-1a000000-2b00-3c00-4d00-5e0000000001"); n != -1 {
		t.Errorf("a board is taken for an instance of it: cuda:%d", n)
	}
	f.fail = map[string]result{"uuid": codeNotSupported}
	d, err := Open(0)
	if err != nil || d.UUID() != "" || Named("") != -1 {
		t.Errorf("a driver that does not tell: %q, %v", d.UUID(), err)
	}
	d.Close()
}

func TestMPSIsSeen(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	defer d.Close()
	folder := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", folder)
	if d.MPS() {
		t.Error("seen where there is none")
	}
	f.mps = 1
	if !d.MPS() {
		t.Error("not seen, though the driver tells")
	}
	f.mps, f.fail = 0, map[string]result{"mps": codeInvalidValue} // an older driver
	expect.OK(t, os.WriteFile(filepath.Join(folder, "control"), nil, 0o600))
	if !d.MPS() {
		t.Error("not seen, though its control socket is there")
	}
}
