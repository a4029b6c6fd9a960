package edgelist

import (
	"bytes"
	"errors"
	"hash/maphash"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/pinned"
)

// names numbers strings as they first appear: an open-addressing table over the strings.
type names struct {
	seed  maphash.Seed
	slots []slot // none, or a power of two, at most half full
	source.Texts
}

type slot struct {
	tag    uint32 // of the hash, so that most other names are passed without looking at them
	number uint32 // 1 + the name's number; 0: free
}

func newNames(opt *Options) *names {
	return &names{seed: maphash.MakeSeed(), Texts: source.Texts{Budget: opt.Budget}}
}

// Close frees the memory.
func (n *names) Close() error {
	n.Budget.Ledger().Give(pinned.Sources, slotBytes*int64(len(n.slots)))
	n.slots = nil
	return n.Texts.Close()
}

// number returns the number of a name, a new one for a new name. The bytes are copied.
func (n *names) number(name []byte) (int64, error) {
	if 2*n.Len() >= int64(len(n.slots)) {
		if err := n.grow(); err != nil {
			return 0, n.tooMany(err)
		}
	}
	h := maphash.Bytes(n.seed, name)
	tag, mask := uint32(h>>32), uint64(len(n.slots)-1)
	i := h & mask
	for ; n.slots[i].number != 0; i = (i + 1) & mask {
		if s := n.slots[i]; s.tag == tag && bytes.Equal(n.At(int64(s.number-1)), name) {
			return int64(s.number - 1), nil
		}
	}
	if !utf8.Valid(name) {
		return 0, badf("convert the file to UTF-8 first", "id %q is not UTF-8", clip(name))
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

// tooMany is the error of a name for which there is no memory.
func (n *names) tooMany(err error) error {
	return badf("", "ids are names, and there is no room for more than %d: %w", n.Len(), err)
}

const slotBytes = 8

// grow doubles the slots.
func (n *names) grow() error {
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

// strings returns the names in order.
func (n *names) strings(column string) source.Strings {
	return source.Strings{Name: column, Rows: n.Len(), Each: func(yield func(string) error) error {
		for i := range n.Len() {
			if err := yield(string(n.At(i))); err != nil {
				return err
			}
		}
		return nil
	}}
}
