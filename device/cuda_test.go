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
			expect.That(t, Count() == 0, "%d devices are counted", Count())
			_, err := Open(0)
			expect.That(t, errors.Is(err, ErrNoDevice) && strings.Contains(err.Error(), test.reason), "Open says %v",
				err)
		})
	}
}

func TestOpenRefusesWhatIsNotThere(t *testing.T) {
	f := newFake(t)
	for _, ordinal := range []int{-1, 2} {
		expect.Says(t, expect.Err(Open(ordinal)), ErrNoDevice, "reports 2", "cuda:%d", ordinal)
	}
	f.compute = 61
	if _, err := Open(0); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "Fake 0") ||
		!strings.Contains(err.Error(), "6.1") {
		t.Errorf("an old device: %v", err)
	}
	f.compute, f.fail = 90, map[string]result{"retain": 2}
	_, err := Open(0)
	expect.That(t, errors.Is(err, ErrOutOfMemory) && !errors.Is(err, ErrNoDevice), "a device without room: %v", err)
}

func TestContextIsRetainedOnceAndReleasedWithTheLastClose(t *testing.T) {
	f := newFake(t)
	first := expect.Must(Open(1))(t)
	second := expect.Must(Open(1))(t)
	expect.That(t, f.retained == 1 && first.Ordinal() == 1 && first.Name() == "Fake 1" && first.SMs() == 132,
		"retained %d times; cuda:%d %s with %d SMs", f.retained, first.Ordinal(), first.Name(), first.SMs())
	for range 2 { // the second time does nothing
		err := first.Close()
		expect.That(t, err == nil && f.retained == 1, "%v, retained %d times", err, f.retained)
	}
	expect.Is(t, expect.Err(first.Alloc(1)), ErrClosed, "a closed device allocates")
	expect.Is(t, second.Register(nil, false), nil, "the other device of the same context")
	err := second.Close()
	expect.That(t, err == nil && f.retained == 0, "%v, retained %d times", err, f.retained)
}

func TestDeviceIsLostFromTheFirstFaultOn(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	s := expect.Must(d.NewStream())(t)
	held := expect.Must(d.Alloc(1))(t)
	if err := d.fault(); err != nil {
		t.Fatalf("lost before anything happened: %v", err)
	}
	f.fail = map[string]result{"syncStream": 700, "free": 700, "closeStream": 700, "release": 700}
	if err := s.Synchronize(); !errors.Is(err, ErrDeviceLost) {
		t.Fatalf("an illegal address is %v", err)
	}
	before := f.calls["alloc"]
	_, err := d.Alloc(64)
	expect.That(t,
		errors.Is(err, ErrDeviceLost) && strings.Contains(err.Error(), "CUDA_ERROR_700") && f.calls["alloc"] == before,
		"later: %v; the driver was asked %d times", err, f.calls["alloc"]-before)
	expect.That(t, errors.Is(d.fault(), ErrDeviceLost), "it is %v", d.fault())
	for what, err := range map[string]error{"free": held.Close(), "close stream": s.Close(),
		"close device": d.Close()} {
		expect.Is(t, err, nil, "%s on a lost device", what)
	}
	f.fail = nil
	again, err := Open(0)
	expect.That(t, err == nil && again.fault() == nil, "opened again: %v, lost: %v", err, again.fault())
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
		f.fail = map[string]result{"memory": code, "queryStream": code}
		_, _, err := d.Memory()
		expect.That(t, errors.Is(err, ErrDeviceLost) && errors.Is(d.fault(), ErrDeviceLost), "code %d: %v", code, err)
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
	expect.That(t, errors.Is(err, ErrOutOfMemory) && !errors.Is(err, ErrDeviceLost), "%v", err)
	want := "cuda: allocate 1099511627776 bytes on cuda:0: CUDA_ERROR_2 (2): so the fake says"
	e := (*Error)(nil)
	expect.That(t, errors.As(err, &e) && e.Code == 2 && err.Error() == want, "%v", err)
	f.fail = map[string]result{"alloc": codeUnknown} // a device that is lost answers so to other calls, too
	_, err = d.Alloc(1)
	expect.That(t, err != nil && !errors.Is(err, ErrDeviceLost) && d.fault() == nil, "%v", err)
	f.fail = nil
	if _, err := d.Alloc(1); err != nil {
		t.Errorf("after it: %v", err)
	}
	expect.Is(t, expect.Err(d.Alloc(-1)), &Error{Code: codeInvalidValue}, "less than nothing")
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
		{before: others, asked: 3, call: 1, fail: map[string]result{"memory": 1}},
		{before: others, asked: 1, call: 0, fail: map[string]result{"current": 201}},
		{before: others, asked: 2, call: 0, fail: map[string]result{"push": 201}},
	} {
		f.thread, f.fail = test.before, test.fail
		clear(f.calls)
		_, _, err := d.Memory()
		expect.That(t, (err != nil) == (test.fail != nil), "%+v: %v", test, err)
		expect.That(t, f.thread == test.before, "%+v: context %d is current afterwards", test, f.thread)
		if asked := f.calls["current"] + f.calls["push"] + f.calls["pop"]; asked != test.asked ||
			f.calls["memory"] != test.call {
			t.Errorf("%+v: the driver is called %v", test, f.calls)
		}
	}
}

func TestNotReadyIsNoError(t *testing.T) {
	f := newFake(t)
	d, _ := Open(0)
	defer d.Close()
	s, _ := d.NewStream()
	for code, want := range map[result]bool{success: true, codeNotReady: false} {
		f.fail = map[string]result{"queryStream": code}
		done, err := s.Query()
		expect.That(t, done == want && err == nil, "code %d: %v, %v", code, done, err)
	}
	s.Close()
	expect.Is(t, expect.Err(s.Query()), ErrClosed, "a closed stream")
}

func TestRegisteringIsCountedByRange(t *testing.T) {
	f := newFake(t)
	first, _ := Open(0)
	second, _ := Open(1)
	memory := make([]byte, 1<<16)
	expect.OK(t, errors.Join(first.Register(memory, false), second.Register(memory, false)))
	expect.That(t, f.calls["register"] == 1, "the driver was asked %d times", f.calls["register"])
	expect.Is(t, second.Register(memory[4096:8192], false), &Error{Code: codeHostRegistered}, "a part of it")
	expect.Is(t, second.Register(memory[:4096], false), &Error{Code: codeHostRegistered}, "its beginning")
	expect.Is(t, second.Unregister(memory[:4096]), &Error{Code: codeNotRegistered}, "unregistering a part")
	err := first.Register(nil, false)
	expect.That(t, err == nil && f.calls["register"] == 3, "nothing: %v", err)
	// The device that registered first may go first: the registration holds its context.
	if err := errors.Join(first.Unregister(memory), first.Close()); err != nil || f.retained != 2 ||
		f.calls["unregister"] != 0 {
		t.Errorf("%v; %d contexts, %d unregistered", err, f.retained, f.calls["unregister"])
	}
	if err := second.Unregister(memory); err != nil || f.retained != 1 || f.calls["unregister"] != 1 {
		t.Errorf("%v; %d contexts, %d unregistered", err, f.retained, f.calls["unregister"])
	}
	expect.Is(t, second.Unregister(memory), &Error{Code: codeNotRegistered}, "once too often")
	expect.OK(t, second.Close())
}

func TestRefusedRegistrationLeavesNothing(t *testing.T) {
	f := newFake(t)
	d, _ := Open(0)
	f.fail = map[string]result{"register": codeNotSupported}
	err := d.Register(make([]byte, 4096), true)
	expect.That(t, errors.Is(err, &Error{Code: codeNotSupported}), "%v", err)
	if err := d.Close(); err != nil || f.retained != 0 {
		t.Errorf("%v, %d contexts", err, f.retained)
	}
}

func TestManyGoroutinesOpenAndClose(t *testing.T) {
	f := newFake(t)
	memory := make([]byte, 4096)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 50 {
				d, err := Open(0)
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(d.Register(memory, false), d.Unregister(memory), d.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	expect.That(t, f.retained == 0 && len(f.registered) == 0, "%d contexts and %d registrations are left", f.retained,
		len(f.registered))
}

func TestMemoryIsTracedWithoutOpeningOtherDevices(t *testing.T) {
	f := newFake(t)
	f.home = 1
	user := expect.Must(Open(1))(t)
	d := expect.Must(OpenAt(4096))(t)
	expect.That(t, d.Ordinal() == 1 && f.calls["retain"] == 1, "found cuda:%d, with %d contexts", d.Ordinal(),
		f.calls["retain"])
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
		expect.That(t, d.UUID() == want && Named(want) == ordinal, "cuda:%d is %s, and %s is cuda:%d", ordinal,
			d.UUID(), want, Named(want))
		d.Close()
	}
	n := Named("GPU-1a000000-2b00-3c00-4d00-5e0000000001")
	expect.That(t, n == -1, "a board is taken for an instance of it: cuda:%d", n)
	f.fail = map[string]result{"uuid": codeNotSupported}
	d, err := Open(0)
	expect.That(t, err == nil && d.UUID() == "" && Named("") == -1, "a driver that does not tell: %q, %v", d.UUID(),
		err)
	d.Close()
}

func TestMPSIsSeen(t *testing.T) {
	f := newFake(t)
	d := expect.Must(Open(0))(t)
	defer d.Close()
	folder := t.TempDir()
	t.Setenv("CUDA_MPS_PIPE_DIRECTORY", folder)
	expect.That(t, !d.MPS(), "seen where there is none")
	f.mps = 1
	expect.That(t, d.MPS(), "not seen, though the driver tells")
	f.mps, f.fail = 0, map[string]result{"mps": codeInvalidValue} // an older driver
	expect.OK(t, os.WriteFile(filepath.Join(folder, "control"), nil, 0o600))
	expect.That(t, d.MPS(), "not seen, though its control socket is there")
}
