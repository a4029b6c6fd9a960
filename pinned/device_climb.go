package pinned

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/machine"
)

var errElsewhere = errors.New("the device addresses registered memory elsewhere than the host (attribute 91 is 0)")

// climb is one way up the ladder, for bytes that nobody has attached.
type climb struct {
	ctx   context.Context
	b     []byte
	opt   AttachOptions
	what  memory
	steps []Step
	dev   *device.Device // the entry's own handle
}

// make tries the rungs, best first, until one holds e's memory. If none does it returns why, and nothing is held.
func (c *climb) make(dev *device.Device, e *entry) (err error) {
	// A handle of the entry's own, so that the context outlives the memory whoever closes what first.
	if c.dev, err = device.Open(dev.Ordinal()); err != nil {
		return err
	}
	var reasons []error
	for i := range c.steps {
		s := &c.steps[i]
		if s.Refused != "" {
			reasons = append(reasons, errors.New(s.Rung.String()+": "+s.Refused))
			continue
		}
		err := c.try(s.Rung, e)
		if err == nil {
			e.rung, e.steps = s.Rung, c.steps[:i:i]
			e.undo = append([]func() error{c.dev.Close}, e.undo...)
			return nil
		}
		if undo := e.giveBack(); undo != nil {
			err = errors.Join(err, undo)
		}
		if c.ctx.Err() != nil || errors.Is(err, ErrFault) || errors.Is(err, device.ErrDeviceLost) {
			return errors.Join(fmt.Errorf("attach %s: %w", c.name(), err), c.dev.Close())
		}
		s.Refused = err.Error()
		reasons = append(reasons, fmt.Errorf("%v: %w", s.Rung, err))
	}
	return errors.Join(&refusal{c.name(), reasons}, c.dev.Close())
}

func (c *climb) name() string {
	if c.what.path != "" {
		return fmt.Sprintf("%d bytes of %s", len(c.b), c.what.path)
	}
	return fmt.Sprintf("%d bytes of memory", len(c.b))
}

// refusal is the error where every rung failed.
type refusal struct {
	what    string
	reasons []error
}

func (r *refusal) Error() string {
	var s strings.Builder
	fmt.Fprintf(&s, "attach %s: a device cannot be made to address it", r.what)
	for _, reason := range r.reasons {
		s.WriteString("\n  " + reason.Error())
	}
	return s.String()
}

func (r *refusal) Unwrap() []error { return r.reasons }

// try takes a rung. Where it fails, e.giveBack undoes what was done.
func (c *climb) try(r Rung, e *entry) error {
	if e.crowd && r < RungCopy {
		return errors.New("it overlaps memory that is attached already")
	}
	switch r {
	case RungReadOnly:
		return c.inPlace(e, bytesAt(e.lo, int(e.hi-e.lo)), true)
	case RungInPlace:
		if c.what.kind == memoryOwn {
			return c.inPlace(e, bytesAt(e.lo, int(e.hi-e.lo)), false)
		}
		return c.shared(e)
	case RungCopy:
		return c.copied(e, Options{Ledger: c.opt.Ledger, Purpose: c.opt.Purpose})
	default:
		return c.copied(e, Options{Ledger: c.opt.Ledger, Purpose: c.opt.Purpose, Device: c.dev, Place: Pinned})
	}
}

// inPlace registers memory for e's range. Pages of a file are read ahead, and from then on count as memory of this
// process.
func (c *climb) inPlace(e *entry, mem []byte, readOnly bool) error {
	n := int64(len(mem))
	if c.what.kind == memoryFile {
		if c.what.fs == "" { // pages of tmpfs are in memory anyway
			if err := c.preflight(n); err != nil {
				return err
			}
		}
		if err := c.opt.Ledger.take(Host, c.opt.Purpose, n); err != nil {
			return err
		}
		e.onUndo(func() error { c.opt.Ledger.give(Host, c.opt.Purpose, n); return nil })
	}
	e.mem, e.chunk = mem, c.opt.chunk
	return c.chunks(n, func(lo, hi int64) error {
		if c.what.kind == memoryFile {
			if err := readAhead(c.ctx, mem[lo:hi]); err != nil {
				return err
			}
		}
		return e.register(c.dev, mem[lo:hi], readOnly)
	})
}

// shared registers a file on tmpfs or hugetlbfs, by a mapping that may be written to if the one at hand may not.
func (c *climb) shared(e *entry) error {
	mem := bytesAt(e.lo, int(e.hi-e.lo))
	if !c.what.writable {
		again, err := mapWritable(c.what)
		if err != nil {
			return err
		}
		e.onUndo(func() error { return sysUnmap(again) })
		mem = again[e.lo-c.what.lo:][:len(mem)]
	}
	return c.inPlace(e, mem, false)
}

// copied copies the bytes once, to pageable memory that is then registered or to memory of the driver.
func (c *climb) copied(e *entry, to Options) error {
	n := int64(len(c.b))
	if err := c.preflight(to.Size(n)); err != nil {
		return err
	}
	r, err := allocate(n, to)
	if err != nil {
		return err
	}
	e.onUndo(r.Close)
	// Memory that may be written to may have changed when somebody else attaches it.
	e.alone = c.what.kind != memoryFile || c.what.writable
	e.mem, e.chunk = r.data, 0
	attached.narrow(e, c.b)
	if to.Place == Host {
		e.chunk = c.opt.chunk
		_ = preferNode(r.data, c.node()) // a wish: without NUMA there is nothing to prefer
	}
	return c.chunks(n, func(lo, hi int64) error {
		if err := Copy(c.ctx, r.data[lo:hi], c.b[lo:hi], nil); err != nil || to.Place != Host {
			return err
		}
		return e.register(c.dev, r.data[lo:hi], false)
	})
}

// node returns the NUMA node of the device, -1 if the system names none.
func (c *climb) node() int {
	return machine.FindPCI(c.dev.PCI()).NUMANode
}

// preflight fails if page-locking n bytes more would leave less than a sixteenth of the memory: the system cannot
// reclaim locked pages.
func (c *climb) preflight(n int64) error {
	room := c.opt.Available
	if room == 0 {
		room = machine.Probe().Room()
	}
	if free := room - room/16; room > 0 && n > free {
		return fmt.Errorf("%w: %s are needed, and %s of the %s that the system and its control group leave may "+
			"be locked: free memory or raise memory.max, or stay on the CPU, which reads mapped files as they are",
			errMemory, machine.Bytes(n), machine.Bytes(free), machine.Bytes(room))
	}
	return nil
}

// chunks calls do piece by piece, reports progress, and stops when the context ends.
func (c *climb) chunks(n int64, do func(lo, hi int64) error) error {
	for lo := int64(0); lo < n; lo += c.opt.chunk {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		hi := min(lo+c.opt.chunk, n)
		if err := do(lo, hi); err != nil {
			return err
		}
		if c.opt.Progress != nil {
			c.opt.Progress(hi, n)
		}
	}
	return nil
}

func (c *climb) readAhead() error {
	return c.chunks(int64(len(c.b)), func(lo, hi int64) error { return readAhead(c.ctx, c.b[lo:hi]) })
}

// readAhead brings mapped pages into memory, in order.
func readAhead(ctx context.Context, b []byte) error {
	const step = 64 << 20
	for len(b) > 0 {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n := min(step, len(b))
		err := Populate(b[:n])
		if errors.Is(err, errors.ErrUnsupported) {
			err = touchAll(b[:n])
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Copy copies src to dst, which is as long, on all cores. progress, unless it is nil, receives the number of bytes
// done, from one goroutine at a time. Errors: the cause of ctx if it ends, ErrFault if src is a mapped file that was
// cut short.
func Copy(ctx context.Context, dst, src []byte, progress func(done int64)) error {
	const step = 4 << 20
	var (
		next atomic.Int64
		mu   sync.Mutex
		done int64
	)
	g, ctx := errgroup.WithContext(ctx)
	work := func() error {
		for lo := next.Add(step) - step; lo < int64(len(src)); lo = next.Add(step) - step {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			n := int64(copy(dst[lo:min(lo+step, int64(len(src)))], src[lo:]))
			if progress != nil {
				mu.Lock()
				done += n
				progress(done)
				mu.Unlock()
			}
		}
		return nil
	}
	for range min(runtime.GOMAXPROCS(0), (len(src)+step-1)/step) {
		g.Go(func() error { return Guard(work) })
	}
	return g.Wait()
}
