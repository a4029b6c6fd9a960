package sampling

import (
	"math/bits"

	"github.com/khop-gnn/khop/device"
)

var sharedSortKernels device.PerDevice[*sortKernels]

// deviceSort puts items in order on a device: sort.cu. Its arrays hold up to room items.
type deviceSort struct {
	kernels *sortKernels
	room    int64
}

// sortCells returns the cells of a sampler that sorts room items, with arrays of this number of cells an item.
func sortCells(room, cells int64) int64 { return 1 + 4 + 32*512 + 1 + room*cells }

// keyBits returns how many bits numbers up to n have.
func keyBits(n int64) int { return max(bits.Len64(uint64(n)), 1) }

// sort puts the items of an array in order of the lowest bits of their keys, by way of two others, and returns in which
// of the arrays they are then. Arrays are cells an item.
func (d *deviceSort) sort(l *deviceLaunch, keyBits int, from, to, other int64) int64 {
	step := deviceSortStep{at: l.step, room: d.room, from: from}
	for shift := 0; shift < keyBits; shift += 5 {
		step.shift, step.to = int64(shift), to
		words := min(d.room/32, 512)
		put(l, d.kernels.sortCount, words, step)
		putOne(l, d.kernels.sortPlace, step)
		put(l, d.kernels.sortMove, words, step)
		step.from, to, other = to, other, to
	}
	return step.from
}
