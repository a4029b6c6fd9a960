//go:build cuda

package drivertest

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

// rig is an open device with the kernels of this folder, closed when the test ends.
type rig struct {
	*testing.T
	device  *device.Device
	kernels *drivertestKernels
	stream  *device.Stream
}

func open(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, device: cudatest.Open(t)}
	kernels, err := loadDrivertestKernels(r.device)
	r.must(err)
	r.kernels = kernels
	r.closing(r.kernels)
	r.stream = r.newStream()
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	expect.OK(r, err)
}

func (r *rig) closing(c interface{ Close() error }) {
	r.Cleanup(func() {
		expect.OK(r, c.Close())
	})
}

func (r *rig) newStream() *device.Stream {
	r.Helper()
	s, err := r.device.NewStream()
	r.must(err)
	r.closing(s)
	return s
}

func (r *rig) event(e *device.Event, err error) *device.Event {
	r.Helper()
	r.must(err)
	r.closing(e)
	return e
}

func (r *rig) alloc(n int64) device.Address {
	r.Helper()
	a, err := r.device.Alloc(n)
	r.must(err)
	r.closing(a)
	return a.Address()
}

// host returns page-locked memory as words.
func (r *rig) host(words int) ([]uint64, []byte) {
	r.Helper()
	b, err := r.device.HostAlloc(int64(words) * 8)
	r.must(err)
	r.Cleanup(func() { r.must(r.device.HostFree(b)) })
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), words), b
}

func TestDeviceTellsAboutItself(t *testing.T) {
	r := open(t)
	if version, err := device.DriverVersion(); err != nil || version < 11080 {
		t.Errorf("driver version %d, %v", version, err)
	}
	free, total, err := r.device.Memory()
	r.must(err)
	major, _ := r.device.Compute()
	if free <= 0 || free > total || r.device.SMs() < 1 || r.device.Name() == "" ||
		major < 7 {
		t.Errorf("%q: %d of %d bytes free, %d SMs, compute capability %d", r.device.Name(), free, total, r.device.SMs(),
			major)
	}
	const maxThreads, warpSize = device.Attr(1), device.Attr(10)
	if r.device.Attribute(warpSize) != 32 || r.device.Attribute(maxThreads) != 1024 {
		t.Errorf("warps of %d, blocks of up to %d", r.device.Attribute(warpSize), r.device.Attribute(maxThreads))
	}
	v := r.device.Attribute(device.Attr(1 << 20))
	expect.That(t, v == 0, "an attribute that does not exist is %d", v)
	k := r.kernels.scaleAdd.Kernel
	if k.Registers < 1 || k.MaxThreads < 128 || k.Local != 0 {
		t.Errorf("kernel %+v", *k)
	}
}

func TestCopiesArriveUnchanged(t *testing.T) {
	r := open(t)
	const room = 1<<20 + 1
	up, down := r.alloc(room), r.alloc(room)
	_, locked := r.host(room/8 + 1)
	for _, n := range []int{1, 3, 4096, room} {
		for name, back := range map[string][]byte{"page-locked": locked[:n], "Go heap": make([]byte, n)} {
			from := make([]byte, n)
			for i := range from {
				from[i] = byte(i*7 + n)
			}
			clear(back)
			r.must(r.stream.CopyToDevice(up, from))
			r.must(r.stream.Copy(down, up, int64(n)))
			r.must(r.stream.CopyToHost(back, down))
			r.must(r.stream.Synchronize())
			expect.That(t, string(back) == string(from), "%d bytes to %s came back changed", n, name)
		}
	}
	r.must(r.stream.Copy(down, up, 0))
	r.must(r.stream.CopyToDevice(up, nil))
	r.must(r.stream.CopyToHost(nil, up))
}

func TestFillWritesWords(t *testing.T) {
	r := open(t)
	a := r.alloc(400)
	r.must(r.stream.Fill32(a, 0xdeadbeef, 100))
	r.must(r.stream.Fill32(a+40, 7, 3))
	b := make([]byte, 400)
	r.must(r.stream.CopyToHost(b, a))
	r.must(r.stream.Synchronize())
	for i := range 100 {
		want := uint32(0xdeadbeef)
		if i >= 10 && i < 13 {
			want = 7
		}
		got := binary.LittleEndian.Uint32(b[4*i:])
		expect.That(t, got == want, "word %d is %#x", i, got)
	}
}

func TestKernelsComputeWhatTheyAreGiven(t *testing.T) {
	cudatest.EachOrder(t, kernelsComputeWhatTheyAreGiven)
}

func kernelsComputeWhatTheyAreGiven(t *testing.T) {
	r := open(t)
	const n = 1000
	words, b := r.host(n)
	for i := range words {
		words[i] = uint64(i) << 40
	}
	in, out := r.alloc(8*n), r.alloc(8*n)
	r.must(r.stream.CopyToDevice(in, b))
	r.must(r.kernels.scaleAdd.Launch(r.stream, 3, 128, 0, deviceScale{out, in, math.MaxUint64, n}))
	r.must(r.kernels.reverseBlocks.Launch(r.stream, 5, 200, 200*8, deviceReverse{out, n}))
	r.must(r.stream.CopyToHost(b, out))
	r.must(r.stream.Synchronize())
	for i, got := range words {
		from := i/200*200 + 199 - i%200 // reversed in its block
		want := uint64(from) - uint64(from)<<40
		expect.Ensure(t, got == want, "word %d is %d, not %d", i, got, want)
	}
	r.must(r.kernels.storeDouble.Launch(r.stream, 1, 1, 0, deviceDouble{out, math.Pi}))
	r.must(r.stream.CopyToHost(b[:8], out))
	r.must(r.stream.Synchronize())
	got := math.Float64frombits(words[0])
	expect.That(t, got == 2*math.Pi, "twice pi is %v", got)
}

func TestLaunchOfNothingIsRefused(t *testing.T) {
	r := open(t)
	a := r.alloc(8)
	err := r.kernels.poke.Launch(r.stream, 1, 2000, 0, devicePoke{a, 1})
	expect.Says(t, err, &device.Error{Code: 1}, "launch kernel poke", "2000 threads a block")
	r.must(r.stream.Synchronize())
}

func TestImageThatDoesNotLoadIsRefused(t *testing.T) {
	r := open(t)
	_, err := r.device.LoadKernels([]byte("no PTX at all"), nil)
	refused := errors.Is(err, &device.Error{Code: 200}) || errors.Is(err, &device.Error{Code: 218})
	expect.That(t, refused && strings.Contains(err.Error(), "ptxas"), "%v", err)
	var k *device.Kernel
	_, err = r.device.LoadPacked(kernelsPack, "drivertest.ptx", map[string]**device.Kernel{"no_such_kernel": &k})
	if !errors.Is(err, &device.Error{Code: 500}) ||
		!strings.Contains(err.Error(), "no_such_kernel") {
		t.Errorf("%v", err)
	}
	m, err := r.device.LoadPacked(kernelsPack, "drivertest.ptx", map[string]**device.Kernel{"poke": &k})
	r.must(err)
	r.must(m.Close())
	r.must(m.Close())
}

func TestMemoryBeyondTheDeviceIsRefused(t *testing.T) {
	r := open(t)
	_, err := r.device.Alloc(1 << 50)
	expect.That(t, errors.Is(err, device.ErrOutOfMemory), "%v", err)
	r.must(r.stream.Synchronize()) // the device is not lost
}

func TestStreamsAreOrderedByEvents(t *testing.T) {
	cudatest.EachOrder(t, streamsAreOrderedByEvents)
}

func streamsAreOrderedByEvents(t *testing.T) {
	r := open(t)
	const n = 20_000
	second := r.newStream()
	written, read := r.event(r.device.NewEvent()), r.event(r.device.NewEvent())
	a, b := r.alloc(8*n), r.alloc(8*n)
	words, bytes := r.host(n)
	for i := range words {
		words[i] = 1
	}
	r.must(r.stream.CopyToDevice(a, bytes))
	for range 4 { // a -> b on one stream, b -> a on the other
		r.must(r.kernels.scaleAdd.Launch(r.stream, 8, 128, 0, deviceScale{b, a, 3, n}))
		r.must(r.stream.Record(written))
		r.must(second.Wait(written))
		r.must(r.kernels.scaleAdd.Launch(second, 8, 128, 0, deviceScale{a, b, 5, n}))
		r.must(second.Record(read))
		r.must(r.stream.Wait(read))
	}
	r.must(second.CopyToHost(bytes, a))
	r.must(second.Synchronize())
	want := make([]uint64, len(words))
	for i := range want {
		want[i] = 1
		for range 4 {
			want[i] = 5*(3*want[i]+uint64(i)) + uint64(i)
		}
	}
	expect.Ensure(t, slices.Equal(words, want), "%d, not %d", words, want)
	for _, done := range []func() (bool, error){r.stream.Query, second.Query, written.Done, read.Done} {
		ok, err := done()
		expect.That(t, err == nil && ok, "done: %v, %v", ok, err)
	}
}

func TestEventsMeasureTime(t *testing.T) {
	r := open(t)
	begin, end, untimed := r.event(r.device.NewTimer()), r.event(r.device.NewTimer()), r.event(r.device.NewEvent())
	if done, err := end.Done(); !done || err != nil {
		t.Errorf("an event never recorded: %v, %v", done, err)
	}
	a := r.alloc(1 << 20)
	r.must(r.stream.Record(begin))
	r.must(r.stream.Fill32(a, 1, 1<<18))
	r.must(r.stream.Record(end))
	r.must(end.Synchronize())
	d, err := end.Elapsed(begin)
	r.must(err)
	expect.That(t, d >= 0 && d.Seconds() <= 60, "%v for filling a MiB", d)
	r.must(r.stream.Record(untimed))
	r.must(untimed.Synchronize())
	if _, err := untimed.Elapsed(begin); err == nil {
		t.Error("an untimed event tells the time")
	}
}

func TestManyGoroutinesUseOneDevice(t *testing.T) {
	r := open(t)
	const n = 512
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			if err := work(r, uint64(g)+1, n); err != nil {
				t.Errorf("goroutine %d: %v", g, err)
			}
		})
	}
	group.Wait()
}

// work computes on a stream and memory of its own, through a Device of its own.
func work(r *rig, factor uint64, n int64) (err error) {
	gpu, err := device.Open(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.Close()) }()
	stream, err := gpu.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	b, err := gpu.HostAlloc(8 * n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gpu.HostFree(b)) }()
	for round := range 10 {
		a, err := gpu.Alloc(16 * n)
		if err != nil {
			return err
		}
		for i := range n {
			binary.LittleEndian.PutUint64(b[8*i:], uint64(i))
		}
		at := a.Address()
		out := at + device.Address(8*n)
		scale := deviceScale{out, at, factor, n}
		err = errors.Join(stream.CopyToDevice(at, b),
			r.kernels.scaleAdd.Launch(stream, 2, 64, 0, scale),
			stream.CopyToHost(b, out), stream.Synchronize(), a.Close())
		if err != nil {
			return err
		}
		for i := range n {
			if got, want := binary.LittleEndian.Uint64(b[8*i:]), factor*uint64(i)+uint64(i); got != want {
				return errors.New("a wrong word") // the stream or the memory is shared by mistake
			}
		}
		_ = round
	}
	return nil
}

// TestFaultIsFinal runs in a process of its own: nothing else on the device would work after it.
func TestFaultIsFinal(t *testing.T) {
	if os.Getenv("KHOP_TEST_FAULT") == "" {
		command := exec.Command(os.Args[0], "-test.run=^TestFaultIsFinal$", "-test.v")
		command.Env = append(os.Environ(), "KHOP_TEST_FAULT=1", "GORACE=atexit_sleep_ms=0")
		out, err := command.CombinedOutput()
		expect.Ensure(t, err == nil && strings.Contains(string(out), "--- PASS: TestFaultIsFinal"), "%v\n%s", err, out)
		return
	}
	r := open(t)
	a := r.alloc(8)
	r.must(r.kernels.poke.Launch(r.stream, 1, 1, 0, devicePoke{0x10, 1}))
	err := r.stream.Synchronize()
	if !errors.Is(err, device.ErrDeviceLost) || !strings.Contains(err.Error(), "CUDA_ERROR_ILLEGAL_ADDRESS") {
		t.Fatalf("a store to nowhere: %v", err)
	}
	for what, err := range map[string]error{
		"launch": r.kernels.poke.Launch(r.stream, 1, 1, 0, devicePoke{a, 1}),
		"copy":   r.stream.CopyToDevice(a, make([]byte, 8)),
	} {
		expect.Says(t, err, device.ErrDeviceLost, "since an earlier error", "%s after it", what)
	}
	found := cudatest.Findings()
	expect.That(t, !cudatest.Simulated() || len(found) == 1 && strings.Contains(found[0], "drivertest/drivertest."),
		"the simulator found %q", found)
	// The cleanups see that everything still closes without an error.
}

func TestGraphRepeatsWhatWasCaptured(t *testing.T) {
	r := open(t)
	const n = 256
	words, b := r.host(n)
	a, c := r.alloc(8*n), r.alloc(8*n)
	r.must(r.stream.CopyToDevice(a, b))
	r.must(r.stream.Synchronize())
	r.must(r.stream.BeginCapture())
	r.must(r.kernels.scaleAdd.Launch(r.stream, 1, 128, 0, deviceScale{c, a, 2, n}))
	r.must(r.kernels.scaleAdd.Launch(r.stream, 1, 128, 0, deviceScale{a, c, 3, n}))
	graph, err := r.stream.EndCapture()
	r.must(err)
	clear(words)
	r.must(r.stream.CopyToDevice(a, b))
	for range 3 {
		r.must(r.stream.LaunchGraph(graph))
	}
	r.must(r.stream.CopyToHost(b, a))
	r.must(r.stream.Synchronize())
	for i, got := range words {
		want := uint64(0)
		for range 3 {
			want = 3*(2*want+uint64(i)) + uint64(i)
		}
		expect.Ensure(t, got == want, "word %d is %d, not %d", i, got, want)
	}
	r.must(graph.Close())
	expect.Is(t, r.stream.LaunchGraph(graph), device.ErrClosed, "a closed graph")
}
