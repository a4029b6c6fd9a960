//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// rigs returns a rig for each of k devices that reach each other.
func rigs(t *testing.T, k int) []*rig {
	t.Helper()
	var all []*rig
	for i := range k {
		r := &rig{t: t, dev: cudatest.OpenAt(t, i)}
		r.stream = must(r.dev.NewStream())(t)
		t.Cleanup(func() { r.check(r.stream.Close()) })
		all = append(all, r)
	}
	for _, r := range all {
		for _, other := range all {
			r.check(r.dev.Reach(other.dev))
		}
	}
	return all
}

// TestSharedCachesChangeNoByte gathers on four devices rows that each has itself, that others have, and that lie on the
// host, and counts them by tier. Rows of 1, 4 and 16 bytes alignment take the three ways through the kernels.
func TestSharedCachesChangeNoByte(t *testing.T) {
	const seed, n = 51, 90
	if !cudatest.Devices(t, 4, "peers=1,order=random,seed=3") {
		return
	}
	devices, rnd := rigs(t, 4), rand.New(rand.NewPCG(seed, 0))
	var own, shared []int64
	for id := range int64(n) {
		switch {
		case id%9 == 0:
			own = append(own, id)
		case id%3 == 1:
			shared = append(shared, id)
		}
	}
	for _, width := range []int{1, 4, 33, 64} {
		for _, dtype := range []unified.DType{unified.Uint8, unified.Float32} {
			shareOne(t, devices, rnd, dtype, n, width, own, shared)
		}
	}
}

func shareOne(t *testing.T, devices []*rig, rnd *rand.Rand, dtype unified.DType, n, width int, own, shared []int64) {
	rowBytes := width * int(dtype.Size())
	src := columns.Random(rnd, n*rowBytes)
	column := devices[0].host(src, 0)
	stores, memory := make([]*Store, len(devices)), make([]pinned.Options, len(devices))
	for i, r := range devices {
		tensor := r.tensor(pinned.Pinned, dtype, column, int64(n), int64(width))
		stores[i] = must(NewStore(r.dev, tensor, addressOf(column)))(t)
	}
	expect.OK(t, ShareCaches(t.Context(), stores, own, shared, memory))
	for i := range column { // so that what comes out of a cache is seen to
		column[i] ^= 0xff
	}
	for i, s := range stores {
		list := make([]int64, 200)
		want, expected := make([]byte, len(list)*rowBytes), Traffic{Rows: int64(len(list))}
		for j := range list {
			list[j] = rnd.Int64N(int64(n))
		}
		for j, id := range list {
			from := column
			at, far := slices.BinarySearch(shared, id)
			if _, near := slices.BinarySearch(own, id); near || far && at%len(stores) == i {
				expected.Hits++
				from = src
			} else if far {
				expected.Peers++
				from = src
			}
			copy(want[j*rowBytes:][:rowBytes], from[int(id)*rowBytes:])
		}
		expected.Bytes = expected.Rows * int64(rowBytes)
		expected.Saved = (expected.Hits + expected.Peers) * int64(rowBytes)
		r := devices[i]
		expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(idTypes[rnd.IntN(2)], list), 0), want),
			"%v[%d,%d] on cuda:%d: other rows", dtype, n, width, i)
		got := must(s.Traffic())(t)
		expect.That(t, got == expected && got.Hits != 0 && got.Peers != 0 && got.Rows != got.Hits+got.Peers,
			"%v[%d,%d] on cuda:%d: counted %+v, want %+v of every tier", dtype, n, width, i, got, expected)
	}
	for i, s := range stores {
		devices[i].check(s.Close())
	}
}

// TestCachesThatCannotBeSharedLeaveNone: each of the mistakes, and memory that runs out on the second device.
func TestCachesThatCannotBeSharedLeaveNone(t *testing.T) {
	if !cudatest.Devices(t, 2, "peers=1") {
		return
	}
	devices := rigs(t, 2)
	src := columns.Random(rand.New(rand.NewPCG(7, 0)), 40*64)
	column := devices[0].host(src, 0)
	var stores []*Store
	for _, r := range devices {
		stores = append(stores, r.store(unified.Float32, column, 40, 16))
	}
	fewer := devices[1].store(unified.Float32, column, 20, 16)
	var full pinned.Ledger
	full.SetDeviceLimit(400)
	free, tight := make([]pinned.Options, 2), []pinned.Options{{}, {Ledger: &full}}
	for name, c := range map[string]struct {
		stores      []*Store
		own, shared []int64
		memory      []pinned.Options
		want        error
	}{
		"one device":        {stores[:1], nil, []int64{1, 2}, free, unified.ErrShape},
		"rows that repeat":  {stores, []int64{3, 3}, nil, free, gather.ErrRange},
		"a row beyond":      {stores, nil, []int64{3, 40}, free, gather.ErrRange},
		"no memory for one": {stores, []int64{1}, []int64{2, 3}, tight, pinned.ErrLimit},
		"fewer rows on one": {[]*Store{stores[0], fewer}, nil, []int64{1, 2}, free, unified.ErrShape},
	} {
		err := ShareCaches(context.Background(), c.stores, c.own, c.shared, c.memory)
		expect.That(t, errors.Is(err, c.want) && stores[0].Cached()+stores[1].Cached() == 0,
			"%s: %v, want %v; %d and %d rows are cached", name, err, c.want, stores[0].Cached(), stores[1].Cached())
	}
	for i, r := range devices {
		got := r.gather(stores[i], r.idsOnDevice(unified.Int32, []int64{39, 3}), 0)
		expect.That(t, bytes.Equal(got[:64], src[39*64:]), "cuda:%d gathers other rows", i)
	}
}

// TestRowsOfAPeerLieBeyondFourGiB: a cache of 4.3 GiB, of which the last row alone is in memory.
func TestRowsOfAPeerLieBeyondFourGiB(t *testing.T) {
	cudatest.NeedSimulator(t)
	if !cudatest.Devices(t, 2, "peers=1,memory=64g") {
		return
	}
	const n, width = 70_000, 1 << 14
	devices := rigs(t, 2)
	near, far := devices[0], devices[1]
	src := columns.Random(rand.New(rand.NewPCG(73, 0)), 4*width)
	base := far.sparse(n * 4 * width)
	far.upload(bytesAt(base+(n-1)*4*width, 4*width), src)
	nowhere := near.host(make([]byte, 4*width), 0) // stands for the column, of which nothing is read
	column := near.farTensor(unified.Float32, addressOf(nowhere), n, width)
	s := must(NewStore(near.dev, column, addressOf(nowhere)))(t)
	near.check(s.Cache(t.Context(), []int64{0}, pinned.Options{}))
	near.check(s.mark(near.idsOnDevice(unified.Int64, []int64{n - 1}), deviceMark{first: n - 1,
		where: s.cache.where, place: atPeer | 1<<peerShift}))
	near.check(s.own.Synchronize())
	bases := near.take(pinned.Device, 8*MaxPeers, 0)
	near.upload(bases, unified.FromSlice([]uint64{0, uint64(base), 0, 0, 0, 0, 0, 0}).Bytes())
	s.cache.bases = addressOf(bases)
	expect.That(t, bytes.Equal(near.gather(s, near.idsOnDevice(unified.Int32, []int64{n - 1}), 0), src), "another row")
	near.check(s.Close())
}

// TestMoreBlocksWhereFewRowsComeOverTheBus: as many as keep it as busy, but no more than the device is good for.
func TestMoreBlocksWhereFewRowsComeOverTheBus(t *testing.T) {
	for cached, want := range map[float64]int64{0: 40, 0.5: 80, 0.9: 400, 0.99: 1056, 1: 1056} {
		got := gridOverBus(cached, 1056)
		expect.That(t, got == want, "%v of the rows cached: %d blocks, want %d", cached, got, want)
	}
	got := gridOverBus(0.9, 32)
	expect.That(t, got == 40, "a small device: %d blocks, want 40", got)
}
