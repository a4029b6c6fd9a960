package gather

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// However many goroutines copy, the rows are those that one copies, and the first id that is no row is named.
func TestGatherParallelEqualsGather(t *testing.T) {
	const rows, width = 5000, 61
	column := make([]float32, rows*width)
	for i := range column {
		column[i] = float32(i)
	}
	x := expect.Must(unified.New(unified.Float32, unified.FromSlice(column).Bytes(), rows, width))(t)
	s := expect.Must(NewStore(x))(t)
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 500, 3001} {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(r.IntN(rows))
		}
		var one, several unified.Buffer
		want := expect.Must(s.Gather(&one, unified.FromSlice(ids), 1))(t)
		for _, goroutines := range []int{1, 2, 7} {
			got, err := s.Gather(&several, unified.FromSlice(ids), goroutines)
			expect.That(t, err == nil && got.Len() == int64(n) && bytes.Equal(got.Bytes(), want.Bytes()),
				"%d rows by %d goroutines are not those of one: %v, %v", n, goroutines, got, err)
		}
		if n > 1000 {
			ids[n-2], ids[n-900] = rows, -1
			_, err := s.Gather(&several, unified.FromSlice(ids), 7)
			expect.That(t, errors.Is(err, ErrRange) && strings.Contains(err.Error(), "ids[2101] is -1"),
				"%v; want the first id that is no row", err)
		}
		one.Close()
		several.Close()
	}
}
