package sampling

import "unsafe"

// deviceLayout says where the parts of a batch's description lie (batch.cuh), on the host and on the device. The
// results come first, so that one copy brings them back.
type deviceLayout struct {
	status, lengths, made, results                                  int64 // results is the end of them
	batch, lists, stages, segments, bySource, begins, columns, size int64 // seeds come at size
}

// newDeviceLayout is for nt node types, ne edge types, and a number of hops and of columns of edges.
func newDeviceLayout(nt, ne, hops, columns int) (l deviceLayout) {
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
	place(&l.columns, columns, 8)
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
