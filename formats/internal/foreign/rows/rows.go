// Package rows walks over matrices in compressed rows: it says of which row each entry is.
package rows

import (
	"errors"

	"github.com/khop-gnn/khop/formats/internal/array"
)

// Ends are where the rows of a matrix begin and end, as NumPy's indptr: 0, and for each row the number of entries up to
// its end, which does not fall. They are read as entries come to need them.
type Ends struct {
	r     *array.Reader // nil: all are in block
	block []int64
	row   int64 // of the next entry
	end   int64 // of the row
}

// Stream returns the ends that a reader hands on.
func Stream(r *array.Reader) *Ends { return &Ends{r: r, row: -1} }

// List returns ends that lie in memory.
func List(ends []int64) *Ends { return &Ends{block: ends, row: -1} }

// Of appends the rows of n entries, of which the first is number at: the one behind those of the call before. It fails
// where there are fewer rows than entries need.
func (e *Ends) Of(to []int64, at int64, n int) (_ []int64, err error) {
	for i := range int64(n) {
		for e.row < 0 || e.end <= at+i {
			if len(e.block) == 0 && e.r != nil {
				if e.block, err = e.r.Ints(1 << 15); err != nil {
					return to, err
				}
			}
			if len(e.block) == 0 {
				return to, errors.New("the archive has changed")
			}
			e.end, e.block = e.block[0], e.block[1:]
			e.row++
		}
		to = append(to, e.row-1)
	}
	return to, nil
}
