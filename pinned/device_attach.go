package pinned

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/khop-gnn/khop/device"
)

// errMemory is returned if attaching would need more host memory than is available.
var errMemory = errors.New("not enough host memory to page-lock")

// AttachOptions say how Attach and Upload take memory. The zero value counts nothing and reports no progress.
type AttachOptions struct {
	Ledger  *Ledger // counts what is page-locked, copied or uploaded
	Purpose Purpose

	// Progress, if set, receives how many of the bytes are done, from the goroutine that attaches, for every GiB at
	// least. It begins again at 0 where a rung fails half-way and the next one is tried.
	Progress func(done, total int64)

	// OutsideHeap says that the bytes are not in the Go heap, such as those of a C caller. Memory that no file is
	// mapped to can then be registered in place.
	OutsideHeap bool

	From, Last Rung   // the best rung to try, and the last; 0 tries all
	Why        string // the reason against rungs before From, for Attachment.Reasons; empty: "not asked for"
	Available  int64  // bytes of host memory that may be page-locked or copied to; 0 asks the system
	chunk      int64  // for tests: smaller pieces than chunkBytes and stageBytes; 0 is those
}

// chunkBytes is how much is registered at a time: the driver holds the process's memory map meanwhile, and above 2 GiB
// older kernels fail.
const chunkBytes = 1 << 30

// Attachment is memory that a device addresses. It is safe for concurrent use. The attached bytes must stay mapped and
// unchanged until Close, which the owner calls when no device uses them any more.
type Attachment struct {
	bytes  []byte
	entry  *entry // nil where nothing was taken
	rung   Rung
	steps  []Step
	closed atomic.Bool
}

// Address returns the address of the first byte for kernels, which Bytes has for the host. The range is contiguous,
// although it is registered in pieces. 0 without bytes, and after Close.
func (a *Attachment) Address() device.Address { return addressOf(a.Bytes()) }

// Bytes returns the memory that the device addresses: the attached bytes, or their copy; on RungDevice the host cannot
// read it. It must not be written to. It is valid until Close, and nil afterwards.
func (a *Attachment) Bytes() []byte {
	if a.closed.Load() {
		return nil
	}
	return a.bytes
}

// Rung returns how the device addresses the bytes; 0 without bytes.
func (a *Attachment) Rung() Rung { return a.rung }

// Reasons returns the better rungs and why each was refused. The slice is shared: do not write to it.
func (a *Attachment) Reasons() []Step { return a.steps }

// Contiguous returns how many bytes, from an offset on, one copy by the driver may read: a copy must not span two
// registrations, though kernels may. 0 after Close, and for an offset beyond Bytes.
func (a *Attachment) Contiguous(offset int64) int64 {
	b := a.Bytes()
	if offset < 0 || offset >= int64(len(b)) {
		return 0
	}
	left := int64(len(b)) - offset
	if a.entry == nil || a.entry.chunk == 0 {
		return left
	}
	chunk := uint64(a.entry.chunk)
	return min(left, int64(chunk-uint64(addressOf(b[offset:])-addressOf(a.entry.mem))%chunk))
}

// Close undoes Attach or Upload. Later calls do nothing.
func (a *Attachment) Close() error {
	if a.closed.Swap(true) || a.entry == nil {
		return nil
	}
	return attached.drop(a.entry)
}

// Attach lets a device address b, a mapped file or any other host memory, by the best available rung: in place, or in a
// copy, as for the Go heap. It reads pages ahead before it registers them. Attaching the same bytes again, or a part of
// them, shares the memory; each Attachment is closed on its own. Without bytes the Attachment is empty.
//
// Errors: device.ErrNoDevice without a device; the cause of ctx if it ends; ErrFault if a mapped file was cut short;
// device.ErrDeviceLost; otherwise an error that names every rung with the reason against it, among them too little
// memory and ErrLimit of the Ledger. After an error nothing stays registered or allocated.
func Attach(ctx context.Context, dev *device.Device, b []byte, opt AttachOptions) (*Attachment, error) {
	if dev == nil {
		return nil, fmt.Errorf("attach %d bytes: %w", len(b), device.ErrNoDevice)
	}
	if len(b) == 0 {
		return &Attachment{}, nil
	}
	c := climb{ctx: ctx, b: b, opt: opt, what: describe(b)}
	if c.opt.chunk == 0 {
		c.opt.chunk = chunkBytes
	}
	if opt.OutsideHeap && c.what.kind == memoryForeign {
		c.what.kind = memoryOwn
	}
	c.steps = ladder(factsOf(dev), c.what)
	for i := range c.steps {
		switch s := &c.steps[i]; {
		case s.Rung < opt.From && (opt.Why == "" || s.Refused == ""): // Why is against what could be taken
			s.Refused = cmp.Or(opt.Why, "not asked for")
		case opt.Last != 0 && s.Rung > opt.Last:
			s.Refused = "not asked for"
		}
	}
	if c.steps[0].Refused == "" { // nothing to register, so nothing to share
		if err := c.readAhead(); err != nil {
			return nil, fmt.Errorf("attach %s: %w", c.name(), err)
		}
		return &Attachment{bytes: b, rung: RungPageTables}, nil
	}
	e, fresh, err := attached.get(ctx, b)
	if err != nil {
		return nil, err
	}
	if fresh {
		if err := attached.settle(e, c.make(dev, e)); err != nil {
			return nil, err
		}
	}
	return &Attachment{bytes: e.view(b), entry: e, rung: e.rung, steps: e.steps}, nil
}

// Attached reports whether Attach of b would share memory with an attachment that exists or is being made.
func Attached(b []byte) bool {
	lo := uintptr(addressOf(b))
	hi := lo + uintptr(len(b))
	attached.Lock()
	defer attached.Unlock()
	return slices.ContainsFunc(attached.all, func(e *entry) bool { return e.lo <= lo && hi <= e.hi })
}
