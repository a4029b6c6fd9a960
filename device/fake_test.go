package device

import (
	"fmt"
	"sync"
	"testing"
)

// fake is a driver for tests of what lies above it: it counts calls, and gives the answers that a test sets.
type fake struct {
	driver // what a test does not use stays nil

	mu         sync.Mutex
	why        string
	ver        int
	devices    int
	compute    int
	mps        int
	home       int               // the device of all memory
	can        bool              // its devices reach each other
	loaded     []string          // images, in this order
	fail       map[string]result // by the method's name, instead of what it would do
	retained   int
	thread     handle // the current context of the only thread
	before     handle // the one below it
	registered map[uintptr]int64
	calls      map[string]int
}

// use makes f the driver of the package until the test ends.
func (f *fake) use(t *testing.T) *fake {
	t.Helper()
	oldDriver, oldStart := drv, start
	f.registered, f.calls = map[uintptr]int64{}, map[string]int{}
	drv, start = f, func() state { return probe(f) }
	t.Cleanup(func() {
		drv, start = oldDriver, oldStart
		if len(primaries.open) > 0 || len(registrations.at) > 0 {
			t.Errorf("left behind: %d contexts, %d registrations", len(primaries.open), len(registrations.at))
			primaries.open, registrations.at = nil, nil
		}
	})
	return f
}

func newFake(t *testing.T) *fake {
	t.Helper()
	return (&fake{ver: 12040, devices: 2, compute: 90}).use(t)
}

func (f *fake) answer(method string) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[method]++
	return f.fail[method]
}

func (f *fake) missing() string        { return f.why }
func (f *fake) version() (int, result) { return f.ver, f.answer("version") }
func (f *fake) count() (int, result)   { return f.devices, f.answer("count") }
func (f *fake) describe(code result) (string, string) {
	return fmt.Sprintf("CUDA_ERROR_%d", code), "so the fake says"
}
func (f *fake) name(ordinal int) (string, result) { return fmt.Sprintf("Fake %d", ordinal), success }
func (f *fake) uuid(ordinal int) ([16]byte, bool, result) {
	id := [16]byte{0: 0x1a, 4: 0x2b, 6: 0x3c, 8: 0x4d, 10: 0x5e, 15: byte(ordinal)}
	return id, ordinal == 1, f.answer("uuid")
}
func (f *fake) attribute(_ int, a Attr) (int, result) {
	switch a {
	case attrMultiprocessors:
		return 132, success
	case attrComputeMajor:
		return f.compute / 10, success
	case attrComputeMinor:
		return f.compute % 10, success
	case attrMPS:
		return f.mps, f.answer("mps")
	}
	return 0, codeInvalidValue
}

func (f *fake) retain(ordinal int) (handle, result) {
	code := f.answer("retain")
	if code == success {
		f.retained++
	}
	return handle(100 + ordinal), code
}

func (f *fake) release(int) result {
	f.retained--
	return f.answer("release")
}
func (f *fake) canReach(int, int) (bool, result) { return f.can, f.answer("canReach") }
func (f *fake) reach(handle) result              { return f.answer("reach") }
func (f *fake) current() (handle, result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["current"]++
	return f.thread, f.fail["current"]
}

func (f *fake) push(context handle) result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["push"]++
	if f.fail["push"] == success {
		f.before, f.thread = f.thread, context
	}
	return f.fail["push"]
}

func (f *fake) pop() result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls["pop"]++
	f.thread = f.before
	return f.fail["pop"]
}

func (f *fake) load(image []byte) (handle, string, result) {
	f.mu.Lock()
	f.loaded = append(f.loaded, string(image))
	f.mu.Unlock()
	return 9, "", f.answer("load " + string(image))
}
func (f *fake) unload(handle) result                     { return f.answer("unload") }
func (f *fake) memory() (free, total int64, code result) { return 1, 2, f.answer("memory") }
func (f *fake) alloc(int64) (Address, result)            { return 4096, f.answer("alloc") }
func (f *fake) pointer(Address) (PointerInfo, result) {
	return PointerInfo{OnDevice: true, Ordinal: f.home}, f.answer("pointer")
}
func (f *fake) free(Address) result         { return f.answer("free") }
func (f *fake) newStream() (handle, result) { return 7, f.answer("newStream") }
func (f *fake) closeStream(handle) result   { return f.answer("closeStream") }
func (f *fake) queryStream(handle) result   { return f.answer("queryStream") }
func (f *fake) syncStream(handle) result    { return f.answer("syncStream") }

func (f *fake) register(p uintptr, n int64, _ bool) result {
	if code := f.answer("register"); code != success {
		return code
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, length := range f.registered {
		if at < p+uintptr(n) && p < at+uintptr(length) {
			return codeHostRegistered
		}
	}
	f.registered[p] = n
	return success
}

func (f *fake) unregister(p uintptr) result {
	f.mu.Lock()
	delete(f.registered, p)
	f.mu.Unlock()
	return f.answer("unregister")
}
