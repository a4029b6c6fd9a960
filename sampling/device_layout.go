package sampling

import (
	"unsafe"

	"github.com/khop-gnn/khop/device"
)

// The description of a batch in device memory, as batch.cuh has it: every field is 8 bytes. What only the device uses
// has no name here.

type deviceList struct {
	ids                     device.Address
	capacity, offset, count int64
}

type deviceSegment struct {
	kind                       int64 // edge type
	source, target             int64
	fanout                     int64
	key                        uint64
	indptr, indices, positions device.Address
	seeds                      device.Address
	maxIndptr, maxIndices      int64
	before                     device.Address
	_                          [3]int64 // firstDst, lo, hi
	picks                      uint64
	_                          int64 // picksBefore
	firstPick                  int64
	_                          [4]int64 // have, fresh, freshBefore, firstLocal
}

type deviceStage struct {
	segments              device.Address
	numSegments           int64
	bySource, sourceBegin device.Address
	made                  device.Address
	_                     int64 // runs
	words                 int64
	_                     int64 // admitted
}

// Why a batch was stopped; stop is reasons*stage + reason.
const (
	notStopped = iota
	stopGraph
	stopTable
	stopEdges
	stopNodes
	reasons = 8
)

type deviceStatus struct {
	stop             int64
	badNode, badEdge uint64
	_                uint64 // full
}

type deviceBatch struct {
	indptr, indices, types device.Address
	numEdges               int64
	typeBytes              int64
	wideIDs, widePositions int64

	hotStart, hotIndices, hotTypes device.Address

	replace, newNodes int64
	numTypes          int64

	tableValues, tableKeys device.Address
	tableBits              int64
	stamp                  uint64

	start, degree, ids device.Address
	maxDsts            int64
	fresh              device.Address
	subsets            device.Address
	maxPicks           int64
	partials           device.Address
	warps              int64
	shifts             device.Address

	lists     device.Address
	stages    device.Address
	numStages int64
	status    device.Address
	lengths   device.Address
}

// deviceLayout says where the parts of the description lie: the same on the host and on the device. The results come
// first, so that one copy brings them back.
type deviceLayout struct {
	status, lengths, made, results                         int64 // results is the end of them
	batch, lists, stages, segments, bySource, begins, size int64 // seeds come at size
}

// newDeviceLayout is for nt node types, ne edge types and a number of hops.
func newDeviceLayout(nt, ne, hops int) (l deviceLayout) {
	at := int64(0)
	place := func(p *int64, n int, size uintptr) {
		*p = at
		at += int64(n) * int64(size)
	}
	place(&l.status, 1, unsafe.Sizeof(deviceStatus{}))
	place(&l.lengths, (hops+1)*nt, 8)
	place(&l.made, hops*ne, 8)
	place(&l.results, 0, 0)
	place(&l.batch, 1, unsafe.Sizeof(deviceBatch{}))
	place(&l.lists, nt, unsafe.Sizeof(deviceList{}))
	place(&l.stages, hops+1, unsafe.Sizeof(deviceStage{}))
	place(&l.segments, nt+hops*ne, unsafe.Sizeof(deviceSegment{}))
	place(&l.bySource, nt+ne, 8) // of the seeds, and of the hops
	place(&l.begins, 2*(nt+1), 8)
	place(&l.size, 0, 0)
	return l
}

// part views n elements of the description at an offset.
func part[T any](description []byte, at int64, n int) []T {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&description[at])), n)
}
