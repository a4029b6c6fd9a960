package main

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/internal/heap"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// memoryLimit is the memory that a command may take beside what the program itself takes (machine.Own). It is decided
// here for all commands, before one begins.
type memoryLimit struct {
	// Ledger counts what libraries take that are given it. Its limit is the smaller one of what --max-memory and the
	// control group leave.
	pinned.Ledger

	given int64 // --max-memory; 0: no limit was requested
	asked int64 // what that leaves; 0: no limit was requested
	bytes int64 // the limit of Ledger; 0: none
}

// withoutData is a command that may read no array and make none: it runs also where a control group has no room.
type withoutData interface{ withoutData() bool }

func (*versionCmd) withoutData() bool    { return true }
func (*completionCmd) withoutData() bool { return true }
func (*samplersCmd) withoutData() bool   { return true }
func (*optionsCmd) withoutData() bool    { return true }
func (*doctorCmd) withoutData() bool     { return true }
func (*docsCmd) withoutData() bool       { return true }
func (c *infoCmd) withoutData() bool     { return !c.Deep && c.Plot == "" }

// limitMemory decides what the command of a line may take, and limits the heap accordingly.
func (env *environment) limitMemory(line *kong.Context) error {
	command := line.Selected()
	if command == nil {
		return nil
	}
	if c, ok := command.Target.Addr().Interface().(withoutData); ok && c.withoutData() {
		return nil
	}
	return env.limitTo(saidOn(line))
}

// limitTo decides what a command with these options may take, and limits the heap accordingly.
func (env *environment) limitTo(said given.Values) error {
	var of loader.Options
	name := option.NameOf(of, "MaxMemory").Option
	if err := given.Apply(&of, given.Of(of), given.Values{name: said[name]}); err != nil {
		return err
	}
	return env.memory.settle(of.MaxMemory, machine.Probe())
}

// besideHeap is what the system takes in a control group for the program: tables of pages, stacks, heads of buffers.
// A sixteenth of the group is what waits for the disk (package direct).
const besideHeap = 2 << 20

// settle sets the limits of a process that may take at most size bytes; 0: no limit was requested.
func (l *memoryLimit) settle(size int64, m *machine.Machine) (err error) {
	if l.asked, err = forData(size); err != nil {
		return err
	}
	l.given, l.bytes = size, l.asked
	all := size
	if left, room, ok := m.GroupRoom(); ok {
		if room <= 0 {
			return m.GroupIsFull(pinned.ErrLimit)
		}
		if l.bytes == 0 || room < l.bytes {
			l.bytes, all = room, left-left/16-besideHeap
		}
	}
	l.SetLimit(l.bytes)
	if all > 0 {
		heaps.limit(l, all)
	}
	return nil
}

// explain adds to an error of memory what was given, and what would do, both with what the program itself takes.
func (l *memoryLimit) explain(err error) error {
	if l.given == 0 || !errors.Is(err, loader.ErrMemory) && !errors.Is(err, pinned.ErrLimit) {
		return err
	}
	enough := ""
	if of := (interface{ Needed() int64 })(nil); errors.As(err, &of) {
		const unit = 1e6 // the text has three digits: rounded up they suffice
		all := of.Needed() + machine.Own
		for step := int64(unit); ; step *= 10 {
			if all = (all + step - 1) / step * step; all < 1000*step {
				break
			}
		}
		enough = "; allow at least " + machine.Bytes(all)
	}
	return option.Textf("%w: %s is %s, of which the program itself takes up to %s%s", err,
		option.NameOf(loader.Options{}, "MaxMemory"), machine.Bytes(l.given), machine.Bytes(machine.Own), enough)
}

// forData returns what a limit of the process leaves beside what the program itself takes; 0 for none.
func forData(size int64) (int64, error) {
	if size > 0 && size <= machine.Own {
		return 0, option.Errorf(nil, loader.Options{}, "MaxMemory",
			" is %s, and the program itself takes up to %s; allow at least %s: %w", machine.Bytes(size),
			machine.Bytes(machine.Own), machine.Bytes(5*machine.Own/4), pinned.ErrLimit)
	}
	return max(size-machine.Own, 0), nil
}

// heaps are the limits of all that runs in this process at a time: commands, and loaders of the library.
var heaps heapLimits

// heapLimits makes the Go runtime collect garbage before the process takes all of the largest limit. When the last one
// is gone the runtime is as it was.
type heapLimits struct {
	mu   sync.Mutex
	of   map[*memoryLimit]int64 // 0: none
	undo func()
}

// enter takes one in, and returns a function that lets it go, to be called once.
func (h *heapLimits) enter(l *memoryLimit) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.of) == 0 {
		before := debug.SetMemoryLimit(-1)
		h.of, h.undo = map[*memoryLimit]int64{}, func() { debug.SetMemoryLimit(before) }
	}
	h.of[l] = 0
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.of, l)
		h.tell()
	}
}

// limit bounds the heap for one that has entered. A sixteenth stays for what neither the runtime nor package heap
// knows of.
func (h *heapLimits) limit(l *memoryLimit, all int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[l] = all - all/16
	h.tell()
}

// tell tells the runtime. What the user has set of it (GOMEMLIMIT) stays.
func (h *heapLimits) tell() {
	most := int64(0)
	for _, limit := range h.of {
		most = max(most, limit)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		heap.SetLimit(most)
	}
	if len(h.of) == 0 {
		h.undo()
	}
}
