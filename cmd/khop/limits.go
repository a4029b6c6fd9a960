package main

import (
	"os"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/internal/heap"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
)

// memoryLimit is the memory that a command may take beside what the program itself takes (machine.Own). It is decided
// here for all commands, before one begins.
type memoryLimit struct {
	// Ledger counts what libraries take that are given it. Its limit is the smaller one of what --max-memory and the
	// control group leave.
	pinned.Ledger

	asked int64 // what --max-memory leaves; 0: nobody asked for a limit
	bytes int64 // the limit of Ledger; 0: none
}

// withoutData is a command that may read no array and make none: it runs also where a control group has no room.
type withoutData interface{ withoutData() bool }

func (*versionCmd) withoutData() bool    { return true }
func (*completionCmd) withoutData() bool { return true }
func (*samplersCmd) withoutData() bool   { return true }
func (*optionsCmd) withoutData() bool    { return true }
func (*doctorCmd) withoutData() bool     { return true }
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
	var of loader.Options
	name := option.NameOf(of, "MaxMemory").Option
	if err := option.Apply(&of, option.Of(of), option.Said{name: saidOn(line)[name]}); err != nil {
		return err
	}
	return env.memory.settle(of.MaxMemory, machine.Probe())
}

// settle sets the limits of a process that was told to take at most size bytes; 0: it was told nothing.
func (l *memoryLimit) settle(size int64, m *machine.Machine) (err error) {
	if l.asked, err = forData(size); err != nil {
		return err
	}
	l.bytes = l.asked
	all := size
	if left, room, ok := m.GroupRoom(); ok {
		if room <= 0 {
			return m.GroupIsFull(pinned.ErrLimit)
		}
		if l.bytes == 0 || room < l.bytes {
			l.bytes, all = room, left
		}
	}
	l.SetLimit(l.bytes)
	if all > 0 {
		limitHeap(all)
	}
	return nil
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

// limitHeap makes the Go runtime collect garbage before the process takes all of a limit; a sixteenth stays for what
// neither the runtime nor package heap knows of. What the user has set of the runtime (GOMEMLIMIT) stays.
func limitHeap(all int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		heap.SetLimit(all - all/16)
	}
}

// keepHeap returns a function that undoes what limitHeap sets.
func keepHeap() (undo func()) {
	limit := debug.SetMemoryLimit(-1)
	return func() {
		heap.SetLimit(0)
		debug.SetMemoryLimit(limit)
	}
}
