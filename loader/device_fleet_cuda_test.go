//go:build cuda

package loader_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
)

const nodes = 1500

// sharedOn makes digests of all batches of 2 epochs by two ranks on each of k devices, beside those of the CPU. Of the
// feature rows a device has room for so many.
func sharedOn(t *testing.T, k int, share loader.Sharing, room int64) []*loader.Placed {
	t.Helper()
	g := graphs.Plain(t, nodes, 6)
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Shuffle: true, WorldSize: 2 * k,
		Tuning:  loader.TuningOptions{HotShare: share},
		Columns: loader.ColumnOptions{Seeds: []string{}, Nodes: []string{"feature"}}}
	var want, got []string
	for opt.Rank = range opt.WorldSize {
		l := open(t, g, opt)
		want = append(want, digests(t, l.Range(background, 0, 0, 3))...)
	}
	var names []string
	for i := range k {
		names = append(names, fmt.Sprintf("cuda:%d", i))
	}
	opt.Device.Name, opt.Device.Cache = strings.Join(names, ","), 12*nodes+room*12+2560 // indptr, table, rows
	all := expect.Must(loader.PlaceAll(background, g, opt, opt.WorldSize))(t)
	loaders := make([]*loader.Loader, opt.WorldSize)
	for opt.Rank = range opt.WorldSize {
		opt.Device.Name = names[opt.Rank%k]
		loaders[opt.Rank] = open(t, all[opt.Rank%k], opt)
		got = append(got, digests(t, loaders[opt.Rank].Range(background, 0, 0, 3))...)
	}
	expect.That(t, slices.Equal(got, want), "%d devices make\n%q\nthe CPU\n%q", k, got, want)
	for i, p := range all {
		if d := loaders[i].Answer().Device; p.Device() != names[i] || d != names[i] {
			t.Errorf("number %d is on %s, its loader on %s", i, p.Device(), d)
		}
	}
	for i, p := range all { // in the order in which they were made: the first while others read its rows
		for rank := i; rank < len(loaders); rank += k {
			expect.OK(t, errors.Join(loaders[rank].Close(), p.Close()))
		}
		if i == k-1 {
			break
		}
		again := digests(t, loaders[len(loaders)-1].Range(background, 0, 0, 3))
		expect.That(t, slices.Equal(again, want[len(want)-len(again):]),
			"the last loader makes other batches once cuda:%d was closed", i)
	}
	for i, p := range all {
		n := p.Ledger().Total() + p.Ledger().DeviceTotal()
		expect.That(t, n == 0, "cuda:%d: %d bytes are held after Close", i, n)
	}
	checkTiers(t, all, loaders)
	return all
}

// checkTiers fails where a tier was not read that was to be, by what each device has counted.
func checkTiers(t *testing.T, all []*loader.Placed, loaders []*loader.Loader) {
	t.Helper()
	for i := range all {
		tier := loaders[i+len(all)].Stats() // of the device, the later of its ranks
		host := tier.DeviceRows - tier.DeviceHits - tier.DevicePeers
		t.Logf("cuda:%d: %d rows of its own memory, %d of peers, %d of the host", i, tier.DeviceHits, tier.DevicePeers,
			host)
		a := all[i].Arrays()[2]
		if tier.DeviceHits == 0 || (host == 0) != (a.CachedRows+a.PeerRows == nodes) ||
			(tier.DevicePeers == 0) != (a.PeerRows == 0) {
			t.Errorf("%+v: a tier was not read; placed %+v", tier, all[i].Arrays())
		}
	}
}

// peerShares returns how many times its own cached rows each device finds at its peers.
func peerShares(all []*loader.Placed) (shares []int64) {
	for _, p := range all {
		a := p.Arrays()[2]
		shares = append(shares, a.PeerRows/max(a.CachedRows, 1))
	}
	return shares
}

func TestTwoRanksOnEachOfTwoDevicesShareHotRows(t *testing.T) {
	if !cudatest.Devices(t, 2, "peers=1") {
		return
	}
	cudatest.Open(t)
	expect.Same(t, peerShares(sharedOn(t, 2, loader.ShareAll, 200)), []int64{1, 1}, "times the rows at peers")
	sharedOn(t, 2, loader.ShareAuto, 200)
}

func TestTwoRanksOnEachOfFourDevicesShareHotRows(t *testing.T) {
	if !cudatest.Devices(t, 4, "peers=1,order=random,seed=5") {
		return
	}
	cudatest.Open(t)
	expect.Same(t, peerShares(sharedOn(t, 4, loader.ShareAll, 200)), []int64{3, 3, 3, 3}, "times the rows at peers")
	for _, p := range sharedOn(t, 4, loader.ShareAll, nodes/3) { // together they have room for all rows
		a := p.Arrays()[2]
		expect.That(t, a.CachedRows+a.PeerRows == nodes, "%+v: rows are left on the host", a)
	}
}

// sharesNothing fails the test unless two devices keep hot rows each, and refuse to share them where that is asked for,
// each time after refuse was called. It returns the options for that.
func sharesNothing(t *testing.T, refuse func()) loader.Options {
	t.Helper()
	refuse()
	shares := peerShares(sharedOn(t, 2, loader.ShareAuto, 200))
	expect.That(t, slices.Equal(shares, []int64{0, 0}), "%v times the rows at peers that nobody reaches", shares)
	opt := loader.Options{Sampler: neighbor, Device: loader.DeviceOptions{Name: "cuda:0,cuda:1"},
		Tuning: loader.TuningOptions{HotShare: loader.ShareAll}}
	refuse()
	_, err := loader.PlaceAll(background, graphs.Plain(t, 60, 5), opt, 2)
	if !errors.Is(err, loader.ErrDevice) || !strings.Contains(err.Error(), "cuda:1") ||
		!strings.Contains(err.Error(), "auto or none") {
		t.Errorf("sharing was asked for: %v", err)
	}
	return opt
}

// TestDevicesInPairsShareWithinThePair: four devices, each of which reaches one other.
func TestDevicesInPairsShareWithinThePair(t *testing.T) {
	if !cudatest.Devices(t, 4, "peers=2") {
		return
	}
	cudatest.Open(t)
	if shares := peerShares(sharedOn(t, 4, loader.ShareAll, 200)); !slices.Equal(shares, []int64{1, 1, 1, 1}) {
		t.Errorf("%v times the rows at peers, want what the other of the pair has room for", shares)
	}
}

func TestDevicesThatReachNoOtherKeepRowsEach(t *testing.T) {
	if !cudatest.Devices(t, 2, "peers=0") {
		return
	}
	cudatest.Open(t)
	opt := sharesNothing(t, func() {})
	for _, devices := range []string{"cuda:0,cuda:0", "cuda:0,cpu", "cuda:0,cuda:1,cuda:1"} {
		opt.Device.Name, opt.Tuning.HotShare = devices, loader.ShareAuto
		_, err := loader.PlaceAll(background, graphs.Plain(t, 60, 5), opt, 2)
		expect.Is(t, err, loader.ErrOptions, devices)
	}
}

// TestDevicesThatTheDriverRefusesToJoinKeepRowsEach: a driver of CUDA 13.5 looks at IOMMU and ACS where peers are asked
// about and where they are joined, and may refuse by either call, or in one direction alone.
func TestDevicesThatTheDriverRefusesToJoinKeepRowsEach(t *testing.T) {
	cudatest.NeedSimulator(t)
	if !cudatest.Devices(t, 2, "peers=1") {
		return
	}
	const peerAccessUnsupported = 217
	cudatest.Open(t)
	for _, call := range []string{"cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess"} {
		sharesNothing(t, func() { cudatest.Fail(t, call, 1, peerAccessUnsupported) })
	}
}
