package source

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"unicode/utf8"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

// Names numbers strings as they first appear, from 0: an open-addressing table over the strings. It takes 24 to 32
// bytes a string beside their text. It has one owner at a time, who calls Close.
type Names struct {
	seed  maphash.Seed
	slots []slot // none, or a power of two, at most half full
	Texts
}

type slot struct {
	tag    uint32 // of the hash, so that most other names are passed without looking at them
	number uint32 // 1 + the name's number; 0: free
}

// NewNames returns an empty list of names.
func NewNames(b *Budget) *Names {
	return &Names{seed: maphash.MakeSeed(), Texts: Texts{Budget: b}}
}

// Close frees the memory.
func (n *Names) Close() error {
	n.Budget.Ledger().Give(pinned.Sources, slotBytes*int64(len(n.slots)))
	n.slots = nil
	return n.Texts.Close()
}

// Number returns the number of a name, a new one for a new name. The bytes are copied. Errors are graph.ErrText,
// pinned.ErrLimit, formats.ErrSpace.
func (n *Names) Number(name []byte) (int64, error) {
	if 2*n.Len() >= int64(len(n.slots)) {
		if err := n.grow(); err != nil {
			return 0, n.tooMany(err)
		}
	}
	i, tag := n.slot(name)
	if k := n.slots[i].number; k != 0 {
		return int64(k - 1), nil
	}
	if !utf8.Valid(name) {
		return 0, fmt.Errorf("%w: %q", graph.ErrText, name[:min(len(name), 80)])
	}
	if n.Len() == 1<<32-2 {
		return 0, errors.New("there are 2^32 different names, which is more than can be numbered")
	}
	if err := n.Append(name); err != nil {
		return 0, n.tooMany(err)
	}
	n.slots[i] = slot{tag, uint32(n.Len())}
	return n.Len() - 1, nil
}

// Find returns the number of a name; -1 where it has none.
func (n *Names) Find(name []byte) int64 {
	if len(n.slots) == 0 {
		return -1
	}
	i, _ := n.slot(name)
	return int64(n.slots[i].number) - 1
}

// BeyondError is an edge of a part, in order, with an id that no node can have.
type BeyondError struct{ Edge, ID int64 }

// Error implements error.
func (e *BeyondError) Error() string {
	return fmt.Sprintf("edge %d: no node can have the id %d", e.Edge, e.ID)
}

// slot returns the slot of a name, or the free one that it would take, with its tag.
func (n *Names) slot(name []byte) (i uint64, tag uint32) {
	h := maphash.Bytes(n.seed, name)
	tag, mask := uint32(h>>32), uint64(len(n.slots)-1)
	for i = h & mask; n.slots[i].number != 0; i = (i + 1) & mask {
		if s := n.slots[i]; s.tag == tag && bytes.Equal(n.At(int64(s.number-1)), name) {
			break
		}
	}
	return i, tag
}

// tooMany is the error of a name for which there is no memory.
func (n *Names) tooMany(err error) error {
	return fmt.Errorf("ids are names, and there is no room for more than %d: %w", n.Len(), err)
}

const slotBytes = 8

// grow doubles the slots.
func (n *Names) grow() error {
	old, size := len(n.slots), max(2*len(n.slots), 1<<10)
	if err := n.Budget.Ledger().Take(pinned.Sources, slotBytes*int64(size)); err != nil {
		return err
	}
	n.slots = make([]slot, size)
	n.Budget.Ledger().Give(pinned.Sources, slotBytes*int64(old))
	mask := uint64(len(n.slots) - 1)
	for k := range n.Len() {
		h := maphash.Bytes(n.seed, n.At(k))
		i := h & mask
		for n.slots[i].number != 0 {
			i = (i + 1) & mask
		}
		n.slots[i] = slot{uint32(h >> 32), uint32(k + 1)}
	}
	return nil
}

// Strings returns the strings in order, as those of nodes.
func (t *Texts) Strings(column string) Strings {
	return Strings{Name: column, Rows: t.Len(), Each: func(yield func(string) error) error {
		for i := range t.Len() {
			if err := yield(string(t.At(i))); err != nil {
				return err
			}
		}
		return nil
	}}
}
