//go:build cuda && linux

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/layout"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// smallSegments lets rings of small graphs have several segments.
func smallSegments(t *testing.T) {
	old := leastSegment
	leastSegment = pinned.HugePage
	t.Cleanup(func() { leastSegment = old })
}

func TestAnotherProcessGetsTheBatchesOfADevice(t *testing.T) {
	cudatest.Open(t)
	smallSegments(t)
	plain, typed := plainGraph(t, 500), typedGraph(t)
	views, bare := layerViews(), positionsOnly()
	t.Setenv("KHOP_TEST_DEVICE", "cuda:0")
	for _, c := range []struct {
		name string
		src  loader.Source
		opt  loader.Options
	}{
		{"plain", plain, usual()},
		{"typed", typed, usual()},
		{"layers that are views, and edge columns", plain, views},
		{"no columns, edge positions", typed, bare},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []string
			c.opt.Device.Name = "cpu"
			for epoch := range uint64(2) {
				list = append(list, want(t, c.src, c.opt, epoch)...)
			}
			c.opt.Device.Name = "cuda"
			s := serve(t, c.src, Options{Loader: c.opt})
			p := play(t, "consume", s.path, "")
			p.wait(t, "connected", nil)
			for _, want := range list {
				got := p.wait(t, "", nil)
				expect.Ensure(t, got == "got "+want, "got %q, want %q", got, want)
			}
			if st := s.Stats()[0]; st.OnDevice == 0 || st.RingBytes == 0 {
				t.Errorf("a ring of %d bytes on the host and %d on the device", st.RingBytes, st.OnDevice)
			}
		})
	}
}

func TestCUDAOpensNoMemoryOfItsOwnProcess(t *testing.T) {
	cudatest.Open(t)
	s := serve(t, plainGraph(t, 500), Options{Loader: usualOn("cuda:0")})
	expect.Is(t, expect.Err(consumer.Dial(t.Context(), s.path, consumer.Options{Device: "cpu"})), shm.ErrOptions,
		"a consumer on device cpu")
	c := connect(t, s, consumer.Options{Device: "cuda:0"})
	expect.That(t, c.Info().OnDevice, "connected to %+v", c.Info())
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.That(t, err != nil && strings.Contains(err.Error(), "segment "), "batch %v, error %v", b, err)
	}
}

func TestWhereADeviceSharesNothingBatchesLieOnTheHost(t *testing.T) {
	cudatest.Open(t)
	g := plainGraph(t, 500)
	list := want(t, g, usualOn(""), 0)
	for name, readers := range map[string]int{"broadcast": 1, "no IPC": 0} {
		if readers == 0 {
			cudatest.Fail(t, "cuIpcGetMemHandle", 1, 801)
		}
		s := serve(t, g, Options{Loader: usualOn("cuda:0"), Readers: readers})
		c := connect(t, s, consumer.Options{Device: "cuda:0"}) // it may ask
		if got := lines(t, c.Epoch(t.Context(), 0)); c.Info().OnDevice || !slices.Equal(got, list) {
			t.Errorf("%s: %+v: got\n%q\nwant\n%q", name, c.Info(), got, list)
		}
	}
	opt := Options{Path: socketPath(t), Loader: usualOn("cuda:7")}
	expect.Is(t, expect.Err(New(t.Context(), g, opt)), loader.ErrDevice, "a device that is not there")
}

func TestAServerTakesADeviceWhereThereIsOne(t *testing.T) {
	cudatest.Open(t)
	g := plainGraph(t, 500)
	for device, on := range map[string]bool{"": true, "cpu": false, "auto": true, "cuda": true} {
		opt := usual()
		opt.Device.Name = device
		s := serve(t, g, Options{Loader: opt})
		c := connect(t, s, consumer.Options{Device: "cuda:0"}) // it may ask
		got := c.Info().OnDevice
		expect.That(t, got == on, "device %q: batches lie on the device: %t, want %t", device, got, on)
	}
}

func TestConsumersOutliveTheServerOfADevice(t *testing.T) {
	cudatest.Open(t)
	before := cudatest.NowLive(t)
	t.Setenv("KHOP_TEST_DEVICE", "cuda:0")
	path := socketPath(t)
	p := play(t, "serve", path, "")
	p.wait(t, "ready", nil)
	c := expect.Must(consumer.Dial(t.Context(), path, consumer.Options{Device: "cuda:0"}))(t)
	list := want(t, plainGraph(t, 500), usualOn(""), 0)
	var kept []*consumer.Batch
	for b, err := range c.Epoch(t.Context(), 0) {
		if err != nil {
			expect.That(t, errors.Is(err, shm.ErrGone), "%v", err)
			break
		}
		if kept = append(kept, b.Keep()); len(kept) == 2 {
			expect.OK(t, p.Process.Kill())
			_ = p.Wait()
		}
	}
	for i, b := range kept[:2] { // the simulator keeps the memory; a driver need not
		if got := lineOf(b); got != list[i] || misplaced(b, true) != "" {
			t.Errorf("after the server's death: got %q, want %q", got, list[i])
		}
	}
	for _, b := range kept {
		b.Release()
	}
	expect.OK(t, c.Close())
	after := cudatest.NowLive(t)
	expect.That(t, after == before, "left: %+v, was %+v", after, before)
}

func TestABatchOnADeviceGoesToTheNextConsumerWhenOneDies(t *testing.T) {
	cudatest.Open(t)
	t.Setenv("KHOP_TEST_DEVICE", "cuda:0")
	g := plainGraph(t, 500)
	s := serve(t, g, Options{Loader: usualOn("cuda:0")})
	j := &journal{t: t, src: g, last: -1}
	j.want = map[uint64][]string{0: want(t, g, usualOn(""), 0)}
	p := play(t, "consume", s.path, "")
	j.see(p.wait(t, "got ", nil))
	expect.OK(t, p.Process.Kill())
	for _, l := range p.rest() {
		j.see(l)
	}
	j.from = true
	next := play(t, "consume", s.path, "")
	for j.last < len(j.want[0])-1 && !t.Failed() {
		j.see(next.wait(t, "got ", nil))
	}
}

// TestKernelsOfAConsumerMayEndBeforeItsSlotsGoOn: one that goes without BYE, but whose process lives, may still have
// kernels that write to its slots.
func TestKernelsOfAConsumerMayEndBeforeItsSlotsGoOn(t *testing.T) {
	cudatest.Open(t)
	old := teardownTimeout
	t.Cleanup(func() { teardownTimeout = old })
	teardownTimeout = time.Second
	s := serve(t, plainGraph(t, 500), Options{Loader: usualOn("cuda:0")})
	m := good
	m.Takes = wire.TakesDevice
	enter := func() *wire.Socket {
		k := raw(t, s)
		expect.OK(t, k.Send(hello(m), -1, time.Second))
		b, err := answer(t, k)
		expect.Ensure(t, err == nil && kindOf(b) == wire.KindWelcome, "%v, %v instead of WELCOME", kindOf(b), err)
		return k
	}
	first := enter()
	since := time.Now()
	first.Close()
	enter()
	if took := time.Since(since); took < teardownTimeout {
		t.Errorf("the next consumer had the slots after %v, while the first one's process lives", took)
	}
}

func TestADeviceKeepsTheDatasetsIDs(t *testing.T) {
	cudatest.Open(t)
	opt := usualOn("cuda:0")
	opt.Columns.EdgePos = true
	s := serve(t, plainGraph(t, 500), Options{Loader: opt})
	for _, index := range []unified.DType{unified.Int32, unified.Int64} {
		f := s.ranks[0].forms[way{index, pinned.Device}]
		for i, a := range f.arrays {
			dtype := unified.Int32
			switch {
			case a.IsColumn():
				dtype = a.DType
			case a.Kind == layout.NumNodes || a.Kind == layout.Items:
				dtype = unified.Int64
			case a.Kind == layout.Inputs:
				dtype = index
			}
			if f.dtypes[i] != dtype {
				t.Errorf("index dtype %v: array %s is %v, want %v", index, a.Name, f.dtypes[i], dtype)
			}
		}
	}
}

const limitOfDevices = 80 << 20 // of device memory; a segment of a ring has 64 MiB where there is room

func init() {
	playDevices = func(socket string) {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		opt := usualOn("cuda:0,cuda:1")
		opt.Device.Memory = limitOfDevices
		s, err := New(ctx, plainGraph(program{}, 500), Options{Path: socket, Loader: opt, WorldSize: 4})
		if err != nil {
			program{}.Fatal(err)
		}
		fmt.Println("ready")
		if err := s.Serve(ctx); !errors.Is(err, context.Canceled) {
			program{}.Fatal(err)
		}
		counted := int64(0)
		for _, p := range s.placed {
			once, l := int64(0), p.Ledger()
			for _, a := range p.Arrays() {
				once += pinned.Options{Place: pinned.Device}.Size(a.Bytes)
			}
			fmt.Println("device", l.DeviceUsed(pinned.Topology)+l.DeviceUsed(pinned.Columns), once, l.DevicePeak())
			counted += l.DeviceTotal()
		}
		fmt.Println("live", cudatest.NowLive(program{}).Bytes, counted)
		if err := s.Close(); err != nil {
			program{}.Fatal(err)
		}
	}
}

func TestRanksOfADeviceShareOneUploadWithinTheLimit(t *testing.T) {
	cudatest.NeedSimulator(t)
	t.Setenv("KHOP_CUDASIM", strings.TrimPrefix(os.Getenv("KHOP_CUDASIM")+",devices=2", ","))
	socket := socketPath(t)
	p := play(t, "devices", socket, "")
	p.wait(t, "ready", nil)
	// This process sees one device, the server's first. Rank 1 is on its second.
	c, err := consumer.Dial(t.Context(), socket, consumer.Options{Rank: consumer.RankOf(1), Device: "cuda:0"})
	expect.That(t, errors.Is(err, shm.ErrOptions) && strings.Contains(err.Error(), "does not see that device"),
		"another device than the server's: %v, %v", c, err)
	for rank := range 4 {
		c, err := consumer.Dial(t.Context(), socket, consumer.Options{Rank: consumer.RankOf(rank), Timeout: patience})
		expect.OK(t, err)
		opt := usualOn("cpu")
		opt.Rank, opt.WorldSize = rank, 4
		for epoch := range uint64(2) {
			want := want(t, plainGraph(t, 500), opt, epoch)
			got := lines(t, c.Epoch(t.Context(), epoch))
			expect.That(t, slices.Equal(got, want), "rank %d: got\n%q\nwant\n%q", rank, got, want)
		}
		expect.OK(t, c.Close())
	}
	expect.OK(t, p.Process.Signal(syscall.SIGTERM))
	var uploaded, once, peak, live, counted int64
	for range 2 {
		l := p.wait(t, "device", nil)
		_, err := fmt.Sscanf(l, "device %d %d %d", &uploaded, &once, &peak)
		expect.That(t, err == nil && uploaded != 0 && uploaded == once && peak <= limitOfDevices,
			"%q: %v; want one upload, and %d bytes at most", l, err, limitOfDevices)
	}
	l := p.wait(t, "live", nil)
	if _, err := fmt.Sscanf(l, "live %d %d", &live, &counted); err != nil || live-counted > 1<<16 ||
		live > 2*limitOfDevices {
		t.Errorf("%q: %v; want what the devices have to be counted, but for the kernels' own", l, err)
	}
}
