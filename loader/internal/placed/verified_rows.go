package placed

import (
	"sync/atomic"

	"github.com/khop-gnn/khop/unified"
)

// verifier compares elements of a source's array with their checksums.
type verifier interface{ Verify(b []byte) error }

// VerifiedRows remembers which pieces of a column have been verified.
type VerifiedRows struct {
	by    verifier
	bytes []byte
	row   int64
	rows  int64
	seen  []atomic.Uint32 // a bit a piece
}

// PieceShift is the size of a piece: 1 MiB.
const PieceShift = 20

// NewVerifiedRows remembers of a column that nothing is verified yet.
func NewVerifiedRows(v verifier, t unified.Tensor) *VerifiedRows {
	b := t.Bytes()
	return &VerifiedRows{by: v, bytes: b, rows: t.Len(), row: t.RowBytes(),
		seen: make([]atomic.Uint32, len(b)>>PieceShift/32+1)}
}

// Check verifies the rows of ids. Ids that are out of range are for who gathers to report.
func (r *VerifiedRows) Check(ids unified.Tensor) error {
	if r == nil {
		return nil
	}
	at, err := unified.Integers(ids)
	if err != nil {
		return err
	}
	for i := range ids.Len() {
		id := at(i)
		if id < 0 || id >= r.rows {
			continue
		}
		first, last := id*r.row>>PieceShift, (id*r.row+r.row-1)>>PieceShift
		for p := first; p <= last; p++ {
			if r.seen[p/32].Load()>>(p%32)&1 != 0 {
				continue
			}
			if err := r.by.Verify(r.bytes[p<<PieceShift : min((p+1)<<PieceShift, int64(len(r.bytes)))]); err != nil {
				return err
			}
			r.seen[p/32].Or(1 << (p % 32))
		}
	}
	return nil
}
