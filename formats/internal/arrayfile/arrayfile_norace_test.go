//go:build !race

package arrayfile

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestWalkSurvivesEveryChangedByte gives the walker heads and footers without a checksum to protect it: each byte takes
// the values near its own and near the ends, and some others. What it accepts must lie within the file.
func TestWalkSurvivesEveryChangedByte(t *testing.T) {
	cases := []Layout{
		NewLayout(Type{Name: "x", DType: unified.BFloat16, Shape: []int64{2, 3}}, 4, 0),
		NewLayout(Type{Name: "indptr", DType: unified.Int64}, 6, 0),
		NewLayout(Type{Name: "s", Strings: true}, 3, 11),
	}
	for _, l := range cases {
		file := fileOf(l, make([]byte, l.Bytes))
		refused := 0
		for i := range file {
			old := file[i]
			values := []byte{0, 1, 0x7F, 0x80, 0xFF, old + 1, old - 1}
			for bit := range 8 {
				values = append(values, old^1<<bit, byte(i*31+bit*37))
			}
			for _, v := range values {
				file[i] = v
				if checkWalk(t, file) != nil {
					refused++
				}
			}
			file[i] = old
		}
		expect.That(t, refused >= 10*len(l.Tail()), "%v: only %d changes were refused", l, refused)
		for n := range file {
			expect.That(t, checkWalk(t, file[:n]) != nil, "%v: cut to %d of %d bytes it is accepted", l, n, len(file))
		}
	}
}
