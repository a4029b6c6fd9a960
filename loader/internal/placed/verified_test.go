package placed

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// pieces notes which pieces of a column were verified, and finds some of them rotten.
type pieces struct {
	whole  []byte
	times  []int
	rotten int
}

var errRotten = errors.New("rotten")

func (p *pieces) Verify(b []byte) error {
	at := (cap(p.whole) - cap(b)) >> PieceShift
	p.times[at]++
	if at == p.rotten {
		return errRotten
	}
	return nil
}

// Each piece that rows lie in is verified once, before it is read, in whatever order pieces come.
func TestPiecesAreVerifiedOnceWhenTheyAreFirstRead(t *testing.T) {
	const seed, width = 20261126, 3 << 18 // three quarters of a piece
	r := rand.New(rand.NewPCG(seed, 0))
	rows := int64(53) // 39.75 pieces: more than a word of bits
	whole := make([]byte, rows*width)
	x := expect.Must(unified.New(unified.Uint8, whole, rows, width))(t)
	last := (len(whole) - 1) >> PieceShift
	for round := range 6 {
		p := &pieces{whole: whole, times: make([]int, last+1), rotten: -1}
		v, want := NewVerifiedRows(p, x), make([]int, last+1)
		for range 40 {
			ids := make([]int64, r.IntN(3))
			for i := range ids {
				ids[i] = r.Int64N(rows+2) - 1
				if ids[i] >= 0 && ids[i] < rows {
					want[ids[i]*width>>PieceShift] = 1
					want[((ids[i]+1)*width-1)>>PieceShift] = 1
				}
			}
			list := unified.FromSlice(ids)
			if round%2 == 0 {
				narrow := make([]int32, len(ids))
				for i, id := range ids {
					narrow[i] = int32(id)
				}
				list = unified.FromSlice(narrow)
			}
			expect.OK(t, v.Check(list))
			expect.Ensure(t, slices.Equal(p.times, want),
				"seed %d: after rows %v pieces were verified %v times, want %v", seed, ids, p.times, want)
		}
		p.rotten = int(r.Int64N(rows) * width >> PieceShift)
		v, p.times[p.rotten] = NewVerifiedRows(p, x), 0
		for range 2 { // what is rotten stays so
			err := v.Check(unified.FromSlice([]int64{(int64(p.rotten) << PieceShift) / width}))
			expect.Is(t, err, errRotten, "piece %d is rotten", p.rotten)
		}
	}
	var none *VerifiedRows
	expect.OK(t, none.Check(unified.FromSlice([]int64{1})))
}
