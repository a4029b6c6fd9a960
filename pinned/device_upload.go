package pinned

import (
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
)

// stageBytes is the size of each of the two buffers that Upload goes through.
const stageBytes = 32 << 20

// Upload copies b to device memory, the best rung of the ladder, over a stream of the device, and returns when the copy
// is complete. The Ledger counts the device memory, and meanwhile two staging buffers as Scratch. Without bytes the
// Attachment is empty.
//
// Errors: device.ErrOutOfMemory, ErrLimit, the cause of ctx if it ends, ErrFault if a mapped file was cut short, others
// of the driver. After an error nothing stays allocated.
func Upload(ctx context.Context, dev *device.Device, stream *device.Stream, b []byte, opt AttachOptions) (*Attachment,
	error) {
	if dev == nil {
		return nil, fmt.Errorf("upload %d bytes: %w", len(b), device.ErrNoDevice)
	}
	if len(b) == 0 {
		return &Attachment{}, nil
	}
	own, err := device.Open(dev.Ordinal()) // so that the context outlives the memory
	if err != nil {
		return nil, err
	}
	e := &entry{rung: RungDevice, alone: true, count: 1}
	e.onUndo(own.Close)
	r, err := allocate(int64(len(b)), Options{Ledger: opt.Ledger, Purpose: opt.Purpose, Device: own})
	if err == nil {
		e.onUndo(r.Close)
		e.mem = r.data
		err = send(ctx, own, stream, r.Address(), b, opt)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("upload %d bytes: %w", len(b), err), e.giveBack())
	}
	return &Attachment{bytes: e.mem, entry: e, rung: RungDevice}, nil
}

// stage is a page-locked buffer, and the event after which it may be written again.
type stage struct {
	mem  *Region
	free *device.Event
}

// send copies b by way of two staging buffers: one is filled while the other is on the bus. It returns when the stream
// has passed.
func send(ctx context.Context, dev *device.Device, stream *device.Stream, to device.Address, b []byte,
	opt AttachOptions) (err error) {
	var stages [2]stage
	defer func() {
		err = errors.Join(err, stream.Synchronize()) // the stages are in use until then
		for _, s := range stages {
			err = errors.Join(err, s.close())
		}
	}()
	size := min(len(b), stageBytes)
	if opt.chunk > 0 {
		size = min(size, int(opt.chunk))
	}
	for i := range stages {
		if stages[i], err = newStage(dev, int64(size), opt.Ledger); err != nil {
			return err
		}
	}
	for done, i := 0, 0; done < len(b); i ^= 1 {
		s := stages[i]
		piece := b[done:min(done+size, len(b))]
		if err := s.free.Synchronize(); err != nil {
			return err
		}
		if err := Copy(ctx, s.mem.data[:len(piece)], piece, nil); err != nil {
			return err
		}
		if err := stream.CopyToDevice(to+device.Address(done), s.mem.data[:len(piece)]); err != nil {
			return err
		}
		if err := stream.Record(s.free); err != nil {
			return err
		}
		done += len(piece)
		if opt.Progress != nil {
			opt.Progress(int64(done), int64(len(b)))
		}
	}
	return nil
}

func newStage(dev *device.Device, n int64, ledger *Ledger) (s stage, err error) {
	if s.mem, err = allocate(n, Options{Ledger: ledger, Purpose: Scratch, Device: dev, Place: Pinned}); err != nil {
		return stage{}, err
	}
	if s.free, err = dev.NewEvent(); err != nil {
		return stage{}, errors.Join(err, s.mem.Close())
	}
	return s, nil
}

func (s stage) close() error {
	if s.mem == nil {
		return nil
	}
	return errors.Join(s.free.Close(), s.mem.Close())
}
