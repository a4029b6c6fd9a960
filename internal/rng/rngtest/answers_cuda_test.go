//go:build cuda

package rngtest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/rng"
)

// bench is a device with the kernels of answers.cu.
type bench struct {
	t       *testing.T
	device  *device.Device
	stream  *device.Stream
	kernels *answersKernels
}

func open(t *testing.T) *bench {
	t.Helper()
	gpu, err := device.Open(0)
	expect.Ensure(t, err == nil,
		"%v; for the simulated one run make cudasim and set KHOP_CUDA_DRIVER=dist/libcudasim.so", err)
	stream := expect.Must(gpu.NewStream())(t)
	kernels := expect.Must(loadAnswersKernels(gpu))(t)
	t.Cleanup(func() {
		for _, err := range []error{kernels.Close(), stream.Close(), gpu.Close()} {
			expect.OK(t, err)
		}
	})
	return &bench{t, gpu, stream, kernels}
}

// run gives a kernel an array and returns the n numbers that it makes of it.
func run[T int64 | uint64](b *bench, in []uint64, n int, launch func(in, out device.Address) error) []T {
	b.t.Helper()
	check := func(err error) {
		expect.OK(b.t, err)
	}
	from, err := b.device.Alloc(int64(8 * len(in)))
	check(err)
	to, err := b.device.Alloc(int64(8 * n))
	check(err)
	out := make([]T, n)
	check(b.stream.CopyToDevice(from.Address(), unsafe.Slice((*byte)(unsafe.Pointer(&in[0])), 8*len(in))))
	check(launch(from.Address(), to.Address()))
	check(b.stream.CopyToHost(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), 8*n), to.Address()))
	check(b.stream.Synchronize())
	check(from.Close())
	check(to.Close())
	return out
}

func TestDeviceDrawsWhatTheHostDraws(t *testing.T) {
	b := open(t)
	const seed, n = 11, 1000
	r := rand.New(rand.NewPCG(seed, 0))
	var in []uint64
	for range n {
		in = append(in, r.Uint64(), r.Uint64(), r.Uint64N(7), r.Uint64N(256), r.Uint64()>>r.Uint64N(64), r.Uint64N(100),
			r.Uint64()>>r.Uint64N(64))
	}
	in = append(in[:len(in)-7], 0, 0, 0, 0, math.MaxUint64, math.MaxUint64, math.MaxUint64)
	out := run[uint64](b, in, 6*n, func(in, out device.Address) error {
		return b.kernels.rngAnswers.Launch(b.stream, 4, 256, 0, deviceDraws{in, out, n})
	})
	for i := range n {
		q := in[7*i : 7*i+7]
		stage := rng.StageKey(q[0], q[1], rng.Purpose(q[2]), uint8(q[3]))
		stream := rng.Stream(stage, q[4])
		draw := rng.Draw(stream, q[5])
		want := []uint64{stage, stream, draw, rng.Bounded(draw, q[6]), math.Float64bits(rng.Float64(draw)),
			uint64(math.Float32bits(rng.Float32(draw)))}
		got := out[6*i : 6*i+6]
		expect.Ensure(t, slices.Equal(got, want), "seed %d: %x becomes %x, want %x", seed, q, got, want)
	}
}

func TestDeviceSubsetsAreFloyds(t *testing.T) {
	b := open(t)
	const seed, sets = 12, 60
	r := rand.New(rand.NewPCG(seed, 0))
	streams := make([]uint64, sets)
	for i := range streams {
		streams[i] = r.Uint64()
	}
	for _, k := range []int64{1, 2, 3, 5, 10, 16, 17, 32, 33, 64, 65, 200} {
		for _, n := range []int64{k + 1, k + 2, 2 * k, 10 * k, 100000, 1<<32 - 1, 1 << 32, 1<<40 + 7} {
			var want []uint64
			for _, s := range streams {
				want = rng.Floyd(want, s, uint64(n), uint64(k))
			}
			for wide := range int64(3) {
				if wide < 2 && k > 32 || wide == 0 && n >= 1<<32 {
					continue
				}
				got := run[int64](b, streams, sets*int(k), func(in, out device.Address) error {
					return b.kernels.rngSubsets.Launch(b.stream, 2, 64, 0, deviceSubsets{in, out, sets, k, n, wide})
				})
				for i := range want {
					if uint64(got[i]) != want[i] {
						t.Fatalf("seed %d: %d of %d, way %d: element %d of set %d is %d, want %d", seed, k, n, wide,
							i%int(k), i/int(k), got[i], want[i])
					}
				}
			}
		}
	}
}
