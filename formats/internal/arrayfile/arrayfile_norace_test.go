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
		expect.EachByte(file, func(i int, was byte) []byte {
			values := append(expect.Flips(was), 0, 1, 0x7F, 0x80, 0xFF, was+1, was-1)
			for k := range 8 {
				values = append(values, byte(i*31+k*37))
			}
			return values
		}, func(int) {
			if checkWalk(t, file) != nil {
				refused++
			}
		})
		expect.That(t, refused >= 10*len(l.Tail()), "%v: only %d changes were refused", l, refused)
		for n := range file {
			expect.That(t, checkWalk(t, file[:n]) != nil, "%v: cut to %d of %d bytes it is accepted", l, n, len(file))
		}
	}
}
