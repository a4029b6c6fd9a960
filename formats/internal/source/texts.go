package source

import (
	"encoding/binary"
	"errors"
	"os"

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
