package loader

import (
	"errors"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/internal/invariants"
	"github.com/khop-gnn/khop/loader/internal/slots"
)

// ownedSlot is a slot of a loader, and what that knows of its owner.
type ownedSlot struct {
	*slots.Slot
	batch  *Batch
	digest *digester // of the first Digest on
	err    error     // in place of a batch
	inBody bool      // guarded by Loader.mu
	keptAt int64     // the same; in a trace
}

// deliver makes a slot the batch of a loop body; false if the loader was closed meanwhile.
func (l *Loader) deliver(s *ownedSlot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	if invariants.Enabled {
		invariants.Check(!s.inBody && !s.batch.kept, "slot %d is delivered to a second owner", s.Index)
	}
	s.inBody = true
	_ = s.To(slots.Delivered, nil)
	return true
}

// leave ends a loop body.
func (l *Loader) leave(s *ownedSlot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.inBody = false
	if !s.batch.kept {
		l.recycle(s)
	}
}

// recycle makes a delivered slot free for another batch, or frees its memory if no batch follows. l.mu is held.
func (l *Loader) recycle(s *ownedSlot) {
	if s.batch.shared { // its pointer must never come to mean another batch
		s.batch.slot, s.batch.Sample = nil, nil
		s.batch = newBatch(l, s)
	}
	if l.closed {
		l.closeErr = errors.Join(l.closeErr, s.Close())
		return
	}
	if invariants.Enabled {
		invariants.Check(!s.inBody && !s.batch.kept, "slot %d has an owner as it becomes free", s.Index)
	}
	l.free.put(s)
}

// freeList is the slots that nobody owns. The one that was given back last comes first: its memory is still in the
// caches.
type freeList struct {
	ready chan struct{} // one for each slot in the list
	mu    sync.Mutex
	slots []*ownedSlot
}

func newFreeList(room int) *freeList { return &freeList{ready: make(chan struct{}, room)} }

// put gives a slot back. It never waits: there is room for all.
func (f *freeList) put(s *ownedSlot) {
	f.mu.Lock()
	if invariants.Enabled {
		invariants.Check(!slices.Contains(f.slots, s), "slot %d becomes free twice", s.Index)
	}
	s.State = slots.Free
	f.slots = append(f.slots, s)
	f.mu.Unlock()
	f.ready <- struct{}{}
}

// take takes a slot, for whoever has received from ready.
func (f *freeList) take() *ownedSlot {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.slots) - 1
	s := f.slots[last]
	f.slots = f.slots[:last]
	return s
}
