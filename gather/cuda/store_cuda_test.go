//go:build cuda

package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/gather/internal/columns"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"

	"github.com/khop-gnn/khop/internal/expect"
)

// A rig is a device and a stream of it for one test, which fails where there is no device or where the simulator finds
// anything.
type rig struct {
	t      testing.TB
	dev    *device.Device
	stream *device.Stream
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dev: cudatest.Open(t)}
	r.stream = must(r.dev.NewStream())(t)
	t.Cleanup(func() { r.check(r.stream.Close()) })
	return r
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		expect.OK(t, err)
		return v
	}
}

func (r *rig) check(err error) {
	r.t.Helper()
	expect.OK(r.t, err)
}

// take returns n bytes of memory that the device addresses, shift bytes after a line begins and at the end of the
// allocation.
func (r *rig) take(place pinned.Placement, n, shift int) []byte {
	r.t.Helper()
	opt := pinned.Options{Device: r.dev}
	if place == pinned.Pinned {
		opt.Place = place
	}
	region := must(pinned.Allocate(int64(n+shift), opt))(r.t)
	r.t.Cleanup(func() { r.check(region.Close()) })
	return region.Bytes()[shift:]
}

// host returns page-locked memory with these contents.
func (r *rig) host(contents []byte, shift int) []byte {
	b := r.take(pinned.Pinned, len(contents), shift)
	copy(b, contents)
	return b
}

func (r *rig) tensor(place pinned.Placement, dtype unified.DType, b []byte, shape ...int64) unified.Tensor {
	r.t.Helper()
	return must(unified.NewPlaced(place, dtype, b, shape...))(r.t)
}

// idsOnDevice copies ids to the device, as a tensor of the dtype.
func (r *rig) idsOnDevice(dtype unified.DType, ids []int64) unified.Tensor {
	r.t.Helper()
	var b []byte
	if dtype == unified.Int32 {
		for _, id := range ids {
			b = append(b, unified.FromSlice([]uint32{uint32(id)}).Bytes()...)
		}
	} else {
		b = unified.FromSlice(ids).Bytes()
	}
	d := r.take(pinned.Device, len(b), 0)
	r.upload(d, b)
	return r.tensor(pinned.Device, dtype, d, int64(len(ids)))
}

func addressOf(b []byte) device.Address {
	t, _ := unified.NewPlaced(pinned.Device, unified.Uint8, b, int64(len(b)))
	return t.Address()
}

func (r *rig) upload(to, from []byte) {
	r.t.Helper()
	r.check(r.stream.CopyToDevice(addressOf(to), from))
	r.check(r.stream.Synchronize())
}

func (r *rig) download(from []byte) []byte {
	r.t.Helper()
	b := make([]byte, len(from))
	r.check(r.stream.CopyToHost(b, addressOf(from)))
	r.check(r.stream.Synchronize())
	return b
}

// store returns a store of a column of n rows at b.
func (r *rig) store(dtype unified.DType, b []byte, n, width int64) *Store {
	r.t.Helper()
	column := r.tensor(pinned.Pinned, dtype, b, n, width)
	s := must(NewStore(r.dev, column, addressOf(b)))(r.t)
	r.t.Cleanup(func() { r.check(s.Close()) })
	return s
}

// gather returns what the store gathers to memory shift bytes after a line, and fails if bytes beside it are written.
func (r *rig) gather(s *Store, ids unified.Tensor, shift int) []byte {
	r.t.Helper()
	size, dtype := int(ids.Len()*s.rowBytes), s.column.DType()
	const margin = 32
	room := r.take(pinned.Device, margin+shift+size+margin, 0)
	mark := bytes.Repeat([]byte{0xA5}, len(room))
	r.upload(room, mark)
	at := margin + shift
	out := r.tensor(pinned.Device, dtype, room[at:at+size], ids.Len(), s.column.Width())
	r.check(s.EnqueueInto(r.stream, out, ids, 0))
	all := r.download(room)
	expect.That(r.t, bytes.Equal(all[:at], mark[:at]) && bytes.Equal(all[at+size:], mark[at+size:]),
		"bytes beside the result are written")
	return all[at : at+size]
}

var (
	sizedTypes = []unified.DType{unified.Uint8, unified.Float16, unified.Float32, unified.Int64}
	idTypes    = []unified.DType{unified.Int32, unified.Int64}
)

// TestDeviceGathersTheSameBytes compares with copy(), over widths, dtypes, alignments and lists of ids.
func TestDeviceGathersTheSameBytes(t *testing.T) {
	const seed = 11
	cudatest.EachOrder(t, func(t *testing.T) {
		r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
		units := map[int64]bool{}
		for _, width := range []int{1, 3, 7, 16, 32, 1 + rnd.IntN(300), 8 * (1 + rnd.IntN(40)), 263} {
			for _, dtype := range sizedTypes {
				size := int(dtype.Size())
				n := 1 + rnd.IntN(40)
				shift := size * rnd.IntN(128/size) * rnd.IntN(2)
				src := columns.Random(rnd, n*width*size)
				s := r.store(dtype, r.host(src, shift), int64(n), int64(width))
				s.MaxBlocks = 1 + rnd.IntN(3)
				for _, p := range columns.Lists {
					ids := p.IDs(rnd, n)
					want := make([]byte, len(ids)*width*size)
					copied(want, src, ids, width*size)
					onDevice := r.idsOnDevice(idTypes[rnd.IntN(2)], ids)
					out := size * rnd.IntN(128/size) * rnd.IntN(2)
					units[alignment(device.Address(shift), device.Address(out), device.Address(width*size))] = true
					expect.Ensure(t, bytes.Equal(r.gather(s, onDevice, out), want),
						"%v[%d,%d] at %d to %d, %s: differs from copy(); seed %d", dtype, n, width, shift, out, p.Name,
						seed)
				}
				r.check(s.Err())
			}
		}
		expect.That(t, len(units) == 5, "of vectors of 1, 2, 4, 8 and 16 bytes only %v were tried; seed %d", units,
			seed)
	})
}

// TestRaggedRowsHaveAKernelOfTheirOwn: others do not pay for rows that begin between words.
func TestRaggedRowsHaveAKernelOfTheirOwn(t *testing.T) {
	r := newRig(t)
	ids := r.idsOnDevice(unified.Int64, []int64{3, 4, 49, 3})
	for kernel, s := range map[string]*Store{
		"gather_rows":        r.store(unified.Float32, r.host(make([]byte, 50*132), 4), 50, 33),
		"gather_rows_ragged": r.store(unified.Uint8, r.host(make([]byte, 50*5), 1), 50, 5),
	} {
		before := cudatest.Launches(kernel)
		if r.gather(s, ids, 0); cudatest.Launches(kernel) != before+1 {
			t.Errorf("%s was launched %d times", kernel, cudatest.Launches(kernel)-before)
		}
	}
}

// TestBufferOfTheBatchGrows uses one buffer for batches of all sizes, as a loader does, labels among them.
func TestBufferOfTheBatchGrows(t *testing.T) {
	const seed = 12
	r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
	src := columns.Random(rnd, 8*1000)
	column := r.tensor(pinned.Pinned, unified.Int64, r.host(src, 8), 1000)
	s := must(NewStore(r.dev, column, column.Address()))(t)
	defer s.Close()
	var buf unified.Buffer
	buf.Options = pinned.Options{Device: r.dev}
	defer buf.Close()
	for _, m := range []int{0, 1, 900, 3, 2000, 0} {
		ids := make([]int64, m)
		for i := range ids {
			ids[i] = rnd.Int64N(1000)
		}
		out := must(s.Enqueue(r.stream, &buf, r.idsOnDevice(unified.Int32, ids)))(t)
		if out.Rank() != 1 || out.Len() != int64(m) || out.DType() != unified.Int64 ||
			out.Placement() != pinned.Device {
			t.Fatalf("%d labels are %v", m, out)
		}
		want := make([]byte, 8*m)
		copied(want, src, ids, 8)
		expect.Ensure(t, m <= 0 || bytes.Equal(r.download(out.Bytes()), want), "%d labels differ, seed %d", m, seed)
	}
}

// TestDeviceKnowsTheNumberOfIds leaves it to a word on the device how many ids there are.
func TestDeviceKnowsTheNumberOfIds(t *testing.T) {
	const room = 300
	r := newRig(t)
	src := columns.Random(rand.New(rand.NewPCG(1, 0)), 400*20)
	s := r.store(unified.Float32, r.host(src, 0), 400, 5)
	list := make([]int64, room)
	for i := range list {
		list[i] = int64(room - i)
	}
	ids, word := r.idsOnDevice(unified.Int64, list), r.take(pinned.Device, 8, 0)
	for _, m := range []int64{0, 1, 255, 256, 257, room, room + 1} {
		r.upload(word, unified.FromSlice([]int64{m}).Bytes())
		mark := bytes.Repeat([]byte{7}, room*20)
		dst := r.take(pinned.Device, len(mark), 0)
		r.upload(dst, mark)
		r.check(s.EnqueueInto(r.stream, r.tensor(pinned.Device, unified.Float32, dst, room, 5), ids, addressOf(word)))
		n := min(m, room)
		copied(mark[:n*20], src, list[:n], 20)
		expect.That(t, bytes.Equal(r.download(dst), mark), "%d ids of %d: differs", m, room)
	}
}

// TestIdOutOfRangeIsNamedAndNotRead: the simulator would find a read beside the column.
func TestIdOutOfRangeIsNamedAndNotRead(t *testing.T) {
	r := newRig(t)
	for _, bad := range []int64{-1, 40, 1 << 30, -1 << 31, 1<<62 + 5, -1 << 62} {
		s := r.store(unified.Float32, r.host(make([]byte, 40*256), 0), 40, 64)
		list := []int64{0, 39, 7, bad, 1}
		dtype := unified.Int64
		if bad == int64(int32(bad)) {
			dtype = unified.Int32
		}
		r.gather(s, r.idsOnDevice(dtype, list), 0)
		err := s.Err()
		want := fmt.Sprintf("ids[3] is %d, but the column has 40 rows", bad)
		expect.That(t, errors.Is(err, gather.ErrRange) && err.Error() == gather.ErrRange.Error()+": "+want,
			"%v, want %q", err, want)
		list[3] = 2
		r.gather(s, r.idsOnDevice(dtype, list), 0)
		expect.That(t, s.Err() != nil, "%d: the error is forgotten", bad)
	}
}

// TestNothingBehindTheColumnIsRead ends the column with its allocation, between two words.
func TestNothingBehindTheColumnIsRead(t *testing.T) {
	const seed = 15
	r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
	for _, width := range []int{1, 3, 5, 131, 263} {
		for shift := range 4 {
			const n = 7
			src := columns.Random(rnd, n*width)
			memory := must(r.dev.Alloc(int64(shift + len(src))))(t)
			at := memory.Address()
			r.check(r.stream.CopyToDevice(at+device.Address(shift), src))
			column := must(unified.New(unified.Uint8, src, n, int64(width)))(t) // of which only the shape matters
			s := must(NewStore(r.dev, column, at+device.Address(shift)))(t)
			list := []int64{n - 1, 0, n - 1, 3}
			want := make([]byte, len(list)*width)
			copied(want, src, list, width)
			expect.That(t, bytes.Equal(r.gather(s, r.idsOnDevice(unified.Int64, list), 0), want),
				"rows of %d bytes at %d: differs; seed %d", width, shift, seed)
			r.check(s.Close())
			r.check(memory.Close())
		}
	}
}

// TestStoresShareADeviceAndStreams gathers on several streams at once from one store, as the slots of a loader do.
func TestStoresShareADeviceAndStreams(t *testing.T) {
	const seed = 14
	r, rnd := newRig(t), rand.New(rand.NewPCG(seed, 0))
	src := columns.Random(rnd, 500*96)
	s := r.store(unified.Float32, r.host(src, 0), 500, 24)
	type slot struct {
		stream *device.Stream
		buf    unified.Buffer
		out    unified.Tensor
		ids    []int64
	}
	slots := make([]slot, 3)
	for i := range slots {
		p := &slots[i]
		p.stream = must(r.dev.NewStream())(t)
		p.buf.Options.Device = r.dev
		p.ids = make([]int64, 100+i*150)
		for j := range p.ids {
			p.ids[j] = rnd.Int64N(500)
		}
		p.out = must(s.Enqueue(p.stream, &p.buf, r.idsOnDevice(unified.Int32, p.ids)))(t)
	}
	for i := range slots {
		p := &slots[i]
		r.check(p.stream.Synchronize())
		want := make([]byte, len(p.ids)*96)
		copied(want, src, p.ids, 96)
		expect.That(t, bytes.Equal(r.download(p.out.Bytes()), want), "stream %d differs, seed %d", i, seed)
		r.check(p.stream.Close())
		r.check(p.buf.Close())
	}
}

func TestStoreRefusesWhatItCannotGather(t *testing.T) {
	r := newRig(t)
	column := r.tensor(pinned.Pinned, unified.Float32, r.host(make([]byte, 400), 0), 10, 10)
	expect.Is(t, expect.Err(NewStore(r.dev, unified.Tensor{}, 0)), unified.ErrShape, "no column")
	expect.Is(t, expect.Err(NewStore(r.dev, column, column.Address()+1)), unified.ErrShape,
		"an address between elements")
	s := must(NewStore(r.dev, column, column.Address()))(t)
	defer s.Close()
	onHost := unified.FromSlice([]int64{1, 2})
	var buf unified.Buffer
	buf.Options = pinned.Options{Device: r.dev}
	defer buf.Close()
	expect.Is(t, expect.Err(s.Enqueue(r.stream, &buf, onHost)), unified.ErrShape, "ids that the device cannot address")
	var pageable unified.Buffer
	defer pageable.Close()
	expect.Is(t, expect.Err(s.Enqueue(r.stream, &pageable, r.idsOnDevice(unified.Int32, []int64{1}))),
		pinned.ErrPlacement, "a result that the device cannot address")
}

// TestRowsBeyondFourBillion: only some of the column's rows are in memory, those that are gathered.
func TestRowsBeyondFourBillion(t *testing.T) {
	const n, first, held = 5 << 30, 4500 << 20, 1000
	r := newRig(t)
	nothing := must(unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE))(t)
	defer func() { r.check(unix.Munmap(nothing)) }()
	src := r.host(columns.Random(rand.New(rand.NewPCG(3, 0)), held), 0)
	column := r.tensor(pinned.Pinned, unified.Uint8, nothing, n, 1)
	s := must(NewStore(r.dev, column, addressOf(src)-first))(t)
	defer func() { r.check(s.Close()) }()
	list := make([]int64, 500)
	want := make([]byte, len(list))
	for i := range list {
		list[i] = first + int64(i*7919%held)
		want[i] = src[i*7919%held]
	}
	ids := r.idsOnDevice(unified.Int64, list)
	expect.That(t, bytes.Equal(r.gather(s, ids, 0), want), "differs")
}

// TestStoreOutlivesTheDeviceThatLoadedItsKernels loads more kernels after the first owner has gone.
func TestStoreOutlivesTheDeviceThatLoadedItsKernels(t *testing.T) {
	r := newRig(t)
	src := columns.Random(rand.New(rand.NewPCG(43, 0)), 400)
	column := r.host(src, 0)
	first := must(device.Open(0))(t)
	old := must(NewStore(first, r.tensor(pinned.Pinned, unified.Float32, column, 100, 1), addressOf(column)))(t)
	s := r.store(unified.Float32, column, 100, 1)
	r.check(errors.Join(old.Close(), first.Close()))
	r.check(s.Cache(context.Background(), nil, pinned.Options{}))
	list := []int64{7, 99, 0, 7}
	want := make([]byte, 16)
	copied(want, src, list, 4)
	got := r.gather(s, r.idsOnDevice(unified.Int64, list), 0)
	expect.That(t, bytes.Equal(got, want), "gathered %x, want %x", got, want)
}

// copied writes the rows that a gather of ids must write.
func copied(dst, src []byte, ids []int64, rowBytes int) {
	for i, id := range ids {
		copy(dst[i*rowBytes:(i+1)*rowBytes], src[int(id)*rowBytes:])
	}
}
