//go:build cuda

package loader_test

import (
	"slices"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

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
