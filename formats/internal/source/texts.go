package source

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"unicode/utf8"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/pinned"
)

// Texts keeps strings of bytes in the order that they are appended in, each of which can be read at any time. Of the
// bytes the last pieceBytes at most are in memory, which the budget counts; those before are in temporary files, which
// are mapped. Besides it takes 8 bytes a string. The zero value is ready. It has one owner at a
// time, who calls Close.
type Texts struct {
	Budget *Budget

	starts []int64 // of each string: the number of its piece, times pieceBytes, and where in the piece its length lies
	full   [][]byte
	last   []byte
	files  []*pinned.Region
	onDisk int64
	paths  []string // of files that still have a name
}

// pieceBytes is the size of a piece of texts. A string is shorter.
const pieceBytes = 16 << 20

// Len returns how many strings there are.
func (t *Texts) Len() int64 { return int64(len(t.starts)) }

// At returns string i. It is valid until Close and must not be written to.
func (t *Texts) At(i int64) []byte {
	piece, at := t.last, t.starts[i]
	if p := at / pieceBytes; p < int64(len(t.full)) {
		piece = t.full[p]
	}
	piece = piece[at%pieceBytes:]
	n, width := binary.Uvarint(piece)
	return piece[width:][:n]
}

// Append appends a copy of a string, which is shorter than pieceBytes by 16 at least. Errors are pinned.ErrLimit, and
// formats.ErrSpace where the disk is full.
func (t *Texts) Append(b []byte) (err error) {
	need := len(b) + binary.MaxVarintLen32
	if len(t.last)+need > pieceBytes {
		if err := t.flush(); err != nil {
			return err
		}
	}
	if t.starts, err = Grow(t.Budget.Ledger(), t.starts, 1); err != nil {
		return err
	}
	if len(t.last)+need > cap(t.last) {
		room := min(max(len(t.last)+need, 2*cap(t.last)), pieceBytes)
		if err := t.Budget.Ledger().Take(pinned.Sources, int64(room)); err != nil {
			return err
		}
		t.Budget.Ledger().Give(pinned.Sources, int64(cap(t.last)))
		t.last = append(make([]byte, 0, room), t.last...)
	}
	t.starts = append(t.starts, int64(len(t.full))*pieceBytes+int64(len(t.last)))
	t.last = append(binary.AppendUvarint(t.last, uint64(len(b))), b...)
	return nil
}

// flush moves the last piece to a file.
func (t *Texts) flush() error {
	f, path, err := TempFile(t.Budget)
	if err != nil {
		return err
	}
	if path != "" {
		t.paths = append(t.paths, path)
	}
	defer f.Close()
	if err := t.Budget.TakeDisk(int64(len(t.last))); err != nil {
		return err
	}
	t.onDisk += int64(len(t.last))
	t.Budget.Moved(int64(len(t.last)), 0)
	if _, err := direct.WriteAt(f, t.last, 0); err != nil {
		return NoSpace(t.Budget, int64(len(t.full))*pieceBytes, err)
	}
	r, err := pinned.Map(f)
	if err != nil {
		return err
	}
	t.files, t.full, t.last = append(t.files, r), append(t.full, r.Bytes()), t.last[:0]
	return nil
}

// Close frees memory and files.
func (t *Texts) Close() error {
	var errs []error
	for _, r := range t.files {
		errs = append(errs, r.Close())
	}
	for _, p := range t.paths {
		errs = append(errs, os.Remove(p))
	}
	t.Budget.Ledger().Give(pinned.Sources, int64(cap(t.last))+8*int64(cap(t.starts)))
	t.Budget.GiveDisk(t.onDisk)
	*t = Texts{Budget: t.Budget}
	return errors.Join(errs...)
}

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
