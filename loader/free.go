package loader

import "sync"

// freeList is the slots that nobody owns. The one that was given back last comes first: its memory is still in the
// caches, where a loop that keeps up with the workers leaves most slots untouched.
type freeList struct {
	ready chan struct{} // one for each slot in the list
	mu    sync.Mutex
	slots []*slot
}

func newFreeList(room int) *freeList { return &freeList{ready: make(chan struct{}, room)} }

// put gives a slot back. It never waits: there is room for all.
func (f *freeList) put(s *slot) {
	f.mu.Lock()
	f.slots = append(f.slots, s)
	f.mu.Unlock()
	f.ready <- struct{}{}
}

// take takes a slot, for whoever has received from ready.
func (f *freeList) take() *slot {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.slots) - 1
	s := f.slots[last]
	f.slots = f.slots[:last]
	return s
}
