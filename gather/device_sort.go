package gather

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// sorter finds the order in which the Sorted method gathers. Its scratch memory serves one batch after another: a
// stream waits for the one before.
type sorter struct {
	mu      sync.Mutex
	scratch *pinned.Region
	done    *device.Event // when the scratch memory is free again
}

const (
	digitBits = 8 // of a pass, see order.cu
	digits    = 1 << digitBits
	maxSorted = 1<<31 - 1 // positions are 32 bits
)

// run sorts the ids of a job, and then launches it.
func (o *sorter) run(s *DeviceStore, stream *device.Stream, j job) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if j.order, err = o.sort(s, stream, &j); err != nil {
		return err
	}
	if err := s.launch(stream, j); err != nil {
		return err
	}
	return stream.Record(o.done)
}

// sort returns where the device finds the positions of the job's ids, uint32, in the order of their rows.
func (o *sorter) sort(s *DeviceStore, stream *device.Stream, j *job) (device.Address, error) {
	m := j.ids.Len()
	if m > maxSorted {
		return 0, fmt.Errorf("%w: %v are too many to sort", unified.ErrShape, j.ids)
	}
	kernels, err := s.kernels.orderLoaded(s.device)
	if err != nil {
		return 0, err
	}
	grid := s.grid(m, 1)
	if err := o.reserve(s, stream, 4*(digits*int64(grid.X)+4*m)); err != nil {
		return 0, err
	}
	counts := o.scratch.Address()
	at := counts + device.Address(4*digits*int64(grid.X))
	var keys, positions [2]device.Address
	for i := range 2 {
		keys[i], positions[i] = at+device.Address(8*m*int64(i)), at+device.Address(8*m*int64(i)+4*m)
	}
	used := max(bits.Len64(uint64(s.column.Len()-1)), 1)
	drop := max(used-32, 0)
	passes := (used - drop + digitBits - 1) / digitBits
	block := device.Dim(blockThreads)
	pass := devicePass{ids: deviceIds{ids: j.ids.Address(), idBytes: j.ids.DType().Size(), room: m, count: j.count},
		drop: int64(drop), counts: counts, blocks: int64(grid.X)} // no keys: the ids themselves, in order
	for p := range passes {
		pass.bit, pass.newKeys, pass.newPositions = int64(p*digitBits), keys[p%2], positions[p%2]
		if p == passes-1 {
			pass.newKeys = 0 // nobody reads them
		}
		err := kernels.orderCount.Launch(stream, grid, block, 0, pass)
		if err == nil {
			err = kernels.orderScan.Launch(stream, device.Dim(1), device.Dim(digits), 0, pass)
		}
		if err == nil {
			err = kernels.orderPlace.Launch(stream, grid, block, 0, pass)
		}
		if err != nil {
			return 0, err
		}
		pass.keys, pass.positions = pass.newKeys, pass.newPositions
	}
	return pass.positions, nil
}

// reserve makes the scratch memory n bytes, and lets the stream wait until it is free.
func (o *sorter) reserve(s *DeviceStore, stream *device.Stream, n int64) (err error) {
	if o.done == nil {
		if o.done, err = s.device.NewEvent(device.Untimed); err != nil {
			return err
		}
	}
	if o.scratch == nil || o.scratch.Len() < n {
		if err := o.done.Synchronize(); err != nil {
			return err
		}
		if err := o.free(); err != nil {
			return err
		}
		if o.scratch, err = pinned.Allocate(n+n/4, pinned.Options{Device: s.device, Ledger: s.Ledger,
			Purpose: pinned.Scratch}); err != nil {
			return err
		}
	}
	return stream.Wait(o.done)
}

func (o *sorter) free() error {
	r := o.scratch
	o.scratch = nil
	if r == nil {
		return nil
	}
	return r.Close()
}

func (o *sorter) close() error {
	err := o.free()
	if o.done != nil {
		err = errors.Join(err, o.done.Close())
		o.done = nil
	}
	return err
}
