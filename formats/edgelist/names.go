package edgelist

import (
	"bytes"
	"errors"
	"hash/maphash"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/source"
)

// names numbers strings as they first appear: an open-addressing table over one array of bytes.
type names struct {
	seed  maphash.Seed
	slots []slot // a power of two, at most half full
	text  []byte
	ends  []int64 // where name i ends in text
}

type slot struct {
	tag    uint32 // of the hash, so that most other names are passed without looking at them
	number uint32 // 1 + the name's number; 0: free
}

func newNames() *names {
	return &names{seed: maphash.MakeSeed(), slots: make([]slot, 1<<10)}
}

// Len returns how many names there are.
func (n *names) Len() int64 { return int64(len(n.ends)) }

func (n *names) name(i int64) []byte {
	from := int64(0)
	if i > 0 {
		from = n.ends[i-1]
	}
	return n.text[from:n.ends[i]]
}

// number returns the number of a name, a new one for a new name. The bytes are copied.
func (n *names) number(name []byte) (int64, error) {
	h := maphash.Bytes(n.seed, name)
	tag, mask := uint32(h>>32), uint64(len(n.slots)-1)
	i := h & mask
	for ; n.slots[i].number != 0; i = (i + 1) & mask {
		if s := n.slots[i]; s.tag == tag && bytes.Equal(n.name(int64(s.number-1)), name) {
			return int64(s.number - 1), nil
		}
	}
	if !utf8.Valid(name) {
		return 0, badf("convert the file to UTF-8 first", "id %q is not UTF-8", clip(name))
	}
	if len(n.ends) == 1<<32-2 {
		return 0, errors.New("there are 2^32 different names, which is more than can be numbered")
	}
	n.text = append(n.text, name...)
	n.ends = append(n.ends, int64(len(n.text)))
	n.slots[i] = slot{tag, uint32(len(n.ends))}
	if 2*len(n.ends) > len(n.slots) {
		n.grow()
	}
	return int64(len(n.ends) - 1), nil
}

func (n *names) grow() {
	n.slots = make([]slot, 2*len(n.slots))
	mask := uint64(len(n.slots) - 1)
	for k := range n.ends {
		h := maphash.Bytes(n.seed, n.name(int64(k)))
		i := h & mask
		for n.slots[i].number != 0 {
			i = (i + 1) & mask
		}
		n.slots[i] = slot{uint32(h >> 32), uint32(k + 1)}
	}
}

// strings returns the names in order.
func (n *names) strings(column string) source.Strings {
	return source.Strings{Name: column, Rows: n.Len(), Each: func(yield func(string) error) error {
		for i := range n.Len() {
			if err := yield(string(n.name(i))); err != nil {
				return err
			}
		}
		return nil
	}}
}
