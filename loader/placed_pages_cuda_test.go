//go:build cuda

package loader_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
)

// outOfMemory is what the driver answers, by its number.
const outOfMemory = 2

// pagesMeasured reads all columns over the bus.
func pagesMeasured() loader.Options {
	opt := onDevice
	opt.Tuning.HostPages, opt.Columns.Nodes, opt.Columns.Seeds = loader.PagesMeasured, []string{"feature"}, []string{}
	return opt
}

// pagesOf returns where a column is, whose pages were to be chosen.
func pagesOf(t *testing.T, placed []tier.PlacedArray) tier.PlacedArray {
	t.Helper()
	i := slices.IndexFunc(placed, func(p tier.PlacedArray) bool { return p.Array == "column feature" })
	expect.Ensure(t, i >= 0 && placed[i].Pages != nil && placed[i].Pages.Why != "",
		"%+v: want a choice of pages, and why", placed)
	return placed[i]
}

func ofCPU(t *testing.T, g *graph.Graph) []string {
	t.Helper()
	opt := pagesMeasured()
	opt.Device.Name = "cpu"
	return digests(t, open(t, g, opt).Epoch(background, 0))
}

// A copy is made where it is faster by more than a tenth, and batches are the same either way.
func TestThePagesThatGatherFasterAreTaken(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g, folder := inFiles(t, graphs.Wide(t, 100, 3), false)
	want, mapped := ofCPU(t, g), mappings(t, folder)
	for _, c := range []struct {
		registered, copied float64
		rung               pinned.Rung
	}{{10, 8.9, pinned.RungCopy}, {10, 9.1, pinned.RungReadOnly}, {10, 11, pinned.RungReadOnly}} {
		before := cudatest.NowLive(t)
		loader.TimePages(t, 20_000, nil, c.registered, c.copied)
		l := expect.Must(loader.New(g, pagesMeasured()))(t)
		p := pagesOf(t, l.Placed())
		if p.Rung != c.rung || p.Pages.Copied != (c.rung == pinned.RungCopy) || p.Pages.Registered != c.registered ||
			p.Pages.Copy != c.copied || p.Pages.Bytes < 8_000 || p.Pages.Bytes > 20_000 {
			t.Errorf("%v and %v ms: %+v, %+v", c.registered, c.copied, p, p.Pages)
		}
		said := slices.ContainsFunc(p.Refused, func(s pinned.Step) bool {
			return s.Rung == pinned.RungReadOnly && strings.Contains(s.Refused, "8.9 ms")
		})
		expect.That(t, said == p.Pages.Copied, "%v and %v ms: %+v", c.registered, c.copied, p.Refused)
		got := digests(t, l.Epoch(background, 0))
		expect.That(t, slices.Equal(got, want), "%v and %v ms: got %q, want %q", c.registered, c.copied, got, want)
		expect.OK(t, l.Close())
		now := cudatest.NowLive(t)
		expect.That(t, now == before, "the driver holds %+v, before it held %+v", now, before)
		if now := mappings(t, folder); now != mapped {
			t.Errorf("files are mapped %d times, before %d times", now, mapped)
		}
	}
}

// mappings counts the mappings of files in a folder.
func mappings(t *testing.T, folder string) int {
	t.Helper()
	maps := expect.Must(os.ReadFile("/proc/self/maps"))(t)
	return strings.Count(string(maps), " "+folder+"/")
}

// Where there is nothing to choose, nothing is timed.
func TestPagesAreNotTimedInVain(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	loader.TimePages(t, 20_000, func() { t.Error("pages are timed") }, 2, 1)
	g := graphs.Wide(t, 100, 3)
	for name, c := range map[string]struct {
		graph *graph.Graph
		set   func(*loader.Options)
	}{
		"ladder":   {onDisk(t, g), func(o *loader.Options) { o.Tuning.HostPages = loader.PagesByLadder }},
		"memory":   {g, func(*loader.Options) {}},
		"resident": {onDisk(t, g), func(o *loader.Options) { o.Residence = loader.Resident }},
		"copies":   {onDisk(t, g), func(o *loader.Options) { o.Tuning.Carry = loader.CarryCopies }},
		"device":   {onDisk(t, g), func(o *loader.Options) { o.Device.Cache = 0 }},
	} {
		opt := pagesMeasured()
		c.set(&opt)
		for _, p := range open(t, c.graph, opt).Placed() {
			expect.That(t, p.Pages == nil, "%s: %+v", name, p.Pages)
		}
	}
	small := pagesOf(t, open(t, onDisk(t, graphs.Wide(t, 20, 3)), pagesMeasured()).Placed())
	expect.That(t, small.Rung == pinned.RungReadOnly && strings.Contains(small.Pages.Why, "too few"), "%+v, %+v", small,
		small.Pages)
}

// A copy that memory has no room for is not made, whatever the times, and the file's pages serve.
func TestACopyOnHugePagesNeedsMemory(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g := onDisk(t, graphs.Wide(t, 5000, 1))
	for name, refuse := range map[string]func(*testing.T, *loader.Options){
		"available": func(t *testing.T, _ *loader.Options) { loader.AvailableMemory(t, 2_000_000) },
		"ledger":    func(_ *testing.T, o *loader.Options) { o.MaxMemory = 3_500_000 }, // a copy takes two huge pages
	} {
		t.Run(name, func(t *testing.T) {
			opt := pagesMeasured()
			refuse(t, &opt)
			loader.TimePages(t, 20_000, nil, 10, 1)
			l := open(t, g, opt)
			p := pagesOf(t, l.Placed())
			expect.That(t, p.Rung == pinned.RungReadOnly && !p.Pages.Copied && strings.Contains(p.Pages.Why, "refused"),
				"%+v, %+v", p, p.Pages)
		})
	}
}

// Whatever the driver refuses while pages are tried, the file's pages serve or New fails, and nothing stays behind.
func TestTryingPagesLeavesNothingWhateverIsRefused(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g := onDisk(t, graphs.Wide(t, 100, 3))
	want := ofCPU(t, g)
	loader.TimePages(t, 20_000, nil, 10, 1)
	measured, kept, failed := 0, 0, 0
	for _, call := range []string{"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2", "cuMemAlloc_v2",
		"cuEventCreate", "cuEventRecord", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2", "cuMemHostAlloc",
		"kernel:gather_rows"} {
		for nth := 1; nth <= 3; nth++ {
			before := cudatest.NowLive(t)
			cudatest.Fail(t, call, nth, outOfMemory)
			l, err := loader.New(g, pagesMeasured())
			cudatest.Findings() // forgets a failure that has not come
			if err == nil {
				if p := pagesOf(t, l.Placed()); p.Pages.Bytes > 0 {
					measured++
				} else {
					kept++
				}
				if got := digests(t, l.Range(background, 0, 1, 2)); !slices.Equal(got, want[1:3]) {
					t.Errorf("call %d of %s fails: got %q, want %q", nth, call, got, want[1:3])
				}
				err = l.Close()
			} else {
				failed++
			}
			now := cudatest.NowLive(t)
			expect.That(t, now == before, "call %d of %s fails (%v): the driver holds %+v, before it held %+v", nth,
				call, err, now, before)
		}
	}
	expect.That(t, measured != 0 && kept != 0 && failed != 0,
		"%d loaders measured, %d did not, %d failed: want some of each", measured, kept, failed)
}

// A context that ends while pages are tried ends Place, with its cause.
func TestTryingPagesEndsWithTheContext(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g := onDisk(t, graphs.Wide(t, 100, 3))
	enough := errors.New("enough")
	before := cudatest.NowLive(t)
	ctx, cancel := context.WithCancelCause(background)
	loader.TimePages(t, 20_000, func() { cancel(enough) }, 10, 1)
	_, err := loader.Place(ctx, g, pagesMeasured(), 1)
	expect.That(t, errors.Is(err, enough), "%v, want %v", err, enough)
	now := cudatest.NowLive(t)
	expect.That(t, now == before, "the driver holds %+v, before it held %+v", now, before)
}

// What one placed source has attached serves the next, which times nothing.
func TestPlacedSourcesShareTheirPages(t *testing.T) {
	needDisk(t)
	cudatest.Open(t)
	g := onDisk(t, graphs.Wide(t, 100, 3))
	want := ofCPU(t, g)
	for first, rung := range map[loader.HostPages]pinned.Rung{loader.PagesMeasured: pinned.RungCopy,
		loader.PagesByLadder: pinned.RungReadOnly} {
		t.Run(first.String(), func(t *testing.T) {
			loader.TimePages(t, 20_000, nil, 10, 1)
			opt := pagesMeasured()
			opt.Tuning.HostPages = first
			p := place(t, g, opt, 1)
			n := p.Ledger().Used(pinned.Scratch) + p.Ledger().DeviceTotal()
			expect.That(t, n == 0, "trying the pages left %d bytes", n)
			loader.TimePages(t, 20_000, func() { t.Error("pages are timed again") }, 10, 1)
			second := place(t, g, pagesMeasured(), 1)
			has := pagesOf(t, second.Arrays())
			expect.That(t, has.Rung == rung && strings.Contains(has.Pages.Why, "another source"), "%+v, %+v", has,
				has.Pages)
			if n := second.Ledger().Used(pinned.Columns); n != 0 {
				t.Errorf("the second takes %d bytes for columns", n)
			}
			expect.OK(t, p.Close())
			l := open(t, second, pagesMeasured())
			got := digests(t, l.Epoch(background, 0))
			expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
		})
	}
}

// Two ranks on one device read one upload, and make the batches that the CPU makes.
func TestDeviceLoadersShareOneUpload(t *testing.T) {
	cudatest.Open(t)
	g := graphs.Plain(t, 3000, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true, WorldSize: 2,
		Device: loader.DeviceOptions{Memory: 64 << 20}}
	var want, got []string
	for opt.Rank = range 2 {
		want = append(want, digests(t, open(t, g, opt).Range(background, 0, 0, 6))...)
	}
	opt.Device.Name = "cuda:0"
	p := place(t, g, opt, 2)
	uploaded := p.Ledger().DeviceTotal()
	for opt.Rank = range 2 {
		l := open(t, p, opt)
		got = append(got, digests(t, l.Range(background, 0, 0, 6))...)
		m := l.Stats().DeviceMemory
		expect.That(t, m.Topology+m.Columns == 0 && m.Batches != 0, "rank %d holds %+v on the device", opt.Rank, m)
	}
	expect.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	expect.That(t, uploaded != 0 && p.Ledger().DevicePeak() <= opt.Device.Memory,
		"%d bytes were uploaded, at most %d were held of %d", uploaded, p.Ledger().DevicePeak(), opt.Device.Memory)
}

// TestDeviceReadsMappedFilesByTheHostsPageTables: as on Grace, nothing is registered or copied, on pages of any size.
func TestDeviceReadsMappedFilesByTheHostsPageTables(t *testing.T) {
	cudatest.NeedSimulator(t)
	needDisk(t)
	cudatest.SetAttribute(t, device.AttrPageableAccess, 1)
	cudatest.SetAttribute(t, device.AttrPageableUsesHostPageTables, 1)
	cudatest.Open(t)
	g, _ := inFiles(t, graphs.Plain(t, 3000, 6), true)
	opt := loader.Options{Sampler: neighbor, BatchSize: 100, Shuffle: true}
	want := digests(t, open(t, g, opt).Range(background, 0, 0, 6))
	opt.Device = loader.DeviceOptions{Name: "cuda:0", Cache: loader.NoDeviceCache}
	l := open(t, g, opt)
	for _, p := range l.Placed() {
		expect.That(t, p.Rung == pinned.RungPageTables && p.CachedRows == 0, "%+v", p)
	}
	expect.Same(t, digests(t, l.Range(background, 0, 0, 6)), want, "batches")
}
