package sampling

import (
	"context"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
)

// DeviceSampler is a Sampler that also runs on a CUDA device and makes the same samples there, byte for byte.
type DeviceSampler interface {
	Sampler
	// OpenDevice makes a worker for a device. The loader opens one for each batch that it prepares at the same time,
	// and closes it.
	OpenDevice(DeviceEnv) (DeviceWorker, error)
}

// Topology has the addresses of a graph's arrays on a device: in its memory, or in host memory that it addresses.
type Topology struct {
	Indptr  device.Address // int64 [nodes+1]
	Indices device.Address // Schema.IDType [edges]
	Types   device.Address // uint8 or uint16 [edges] where there are several edge types, else 0

	// Columns are the columns that Description.EdgeColumns names, in its order, as in the graph: [edges, ...].
	Columns []device.Address
	// NodeColumns are those of Description.NodeColumns, in its order, by node type; 0 where a type has none.
	NodeColumns [][]device.Address

	// Copies of the columns of some nodes in device memory, for arrays in host memory. 0 without copies.
	HotStart   device.Address // uint32 [nodes]: where a node's column begins in the copies, all ones if it has no copy
	HotIndices device.Address // as Indices
	HotTypes   device.Address // as Types
}

// DeviceEnv has what a DeviceWorker needs.
type DeviceEnv struct {
	// Env is as for a Worker. Scratch memory is taken on Device, and a little in page-locked host memory.
	Env
	Device *device.Device
	// Stream gets all the worker's work. It must stay open until the worker is closed.
	Stream *device.Stream
	// Topology must stay valid and unchanged until the worker is closed.
	Topology Topology
	// MaxBlocks is how many blocks of 256 threads a kernel may have; 0 is eight for each multiprocessor.
	MaxBlocks int
}

// DeviceWorker samples on a device, a batch at a time, for one goroutine at a time.
type DeviceWorker interface {
	// Enqueue puts a whole batch on the stream; the host waits for nothing. out was shaped by Bound.Init with memory of
	// the device, and is the worker's until Finish. req is not kept. If an earlier batch was not finished, Enqueue
	// waits for the stream and drops that batch.
	Enqueue(ctx context.Context, req *Request, out *graph.Sample) error
	// Finish completes out, the sample of the enqueued batch. The caller first waits until the stream has passed the
	// batch. Only work that follows on this stream may read the tensors; the host may read NumNodes and the shapes.
	// replay means that a buffer was too small and will be larger: Enqueue the same request again, for the same sample.
	// On an error out is undefined, and the worker can be used again.
	Finish(out *graph.Sample) (replay bool, err error)
	// Close frees the worker's memory. If a batch was enqueued and not finished, it waits for the stream.
	Close() error
}

// deviceLayout says where the parts of a batch's description lie (batch.cuh), on the host and on the device. The
// results come first, so that one copy brings them back.
type deviceLayout struct {
	status, lengths, made, results                                       int64 // results is the end of them
	batch, lists, stages, segments, bySource, begins, columns, own, size int64 // seeds come at size
}

// newDeviceLayout is for nt node types, ne edge types, and a number of stages of up to width segments, of columns of
// edges, and of bytes of the sampler's own.
func newDeviceLayout(nt, ne, stages, width, columns int, own int64) (l deviceLayout) {
	at := int64(0)
	place := func(p *int64, n int, size uintptr) {
		*p = at
		at += int64(n) * int64(size)
	}
	place(&l.status, 1, unsafe.Sizeof(deviceStatus{}))
	place(&l.lengths, (stages+1)*nt, 8)
	place(&l.made, stages*width, 8)
	place(&l.results, 0, 0)
	place(&l.batch, 1, unsafe.Sizeof(deviceBatch{}))
	place(&l.lists, nt, unsafe.Sizeof(deviceList{}))
	place(&l.stages, stages+1, unsafe.Sizeof(deviceStage{}))
	place(&l.segments, nt+stages*width, unsafe.Sizeof(deviceSegment{}))
	place(&l.bySource, nt+ne, 8) // of the seeds, and of the hops
	place(&l.begins, 2*(nt+1), 8)
	place(&l.columns, columns, 8)
	place(&l.own, int(own), 1)
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
