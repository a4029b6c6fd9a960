// Package columns makes columns for tests of gathering.
package columns

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/unified"
)

// Random returns n random bytes.
func Random(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// Lists are rows to gather from a table of n, as many as a batch has.
var Lists = []struct {
	Name string
	IDs  func(r *rand.Rand, n int) []int64
}{
	{"none", func(*rand.Rand, int) []int64 { return nil }},
	{"first", func(*rand.Rand, int) []int64 { return []int64{0} }},
	{"last", func(_ *rand.Rand, n int) []int64 { return []int64{int64(n - 1)} }},
	{"the same again", func(_ *rand.Rand, n int) []int64 {
		return []int64{int64(n - 1), 0, 0, int64(n - 1), int64(n - 1)}
	}},
	{"in order", func(_ *rand.Rand, n int) []int64 {
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = int64(i)
		}
		return ids
	}},
	{"backwards", func(_ *rand.Rand, n int) []int64 {
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = int64(n - 1 - i)
		}
		return ids
	}},
	{"random", func(r *rand.Rand, n int) []int64 {
		ids := make([]int64, 1+r.IntN(3*n))
		for i := range ids {
			ids[i] = r.Int64N(int64(n))
		}
		return ids
	}},
}

// Kinds are what rows are widened from.
var Kinds = []string{"float16", "bfloat16", "int8", "int4"}

// Narrow makes a column of random bytes of a kind, with scales of its rows or a code where it has one.
func Narrow(t testing.TB, r *rand.Rand, kind string, rows, width int) (column unified.Tensor, code *graph.Code,
	scales unified.Tensor) {
	t.Helper()
	c := graph.Column{DType: unified.Float32, Shape: []int64{int64(width)}}
	if narrow.Of(kind) != nil {
		c = expect.Must(c.Coded(kind))(t)
	} else {
		c.DType = expect.Must(unified.ParseDType(kind))(t)
	}
	size := rows * int(c.RowBytes())
	b := unified.FromSlice(make([]uint64, (size+7)/8)).Bytes()[:size]
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	column = expect.Must(unified.New(c.DType, b, int64(rows), c.Shape[0]))(t)
	if c.DType == unified.Int8 {
		v := make([]float32, rows)
		for i := range v {
			v[i] = r.Float32()
		}
		scales = unified.FromSlice(v)
	}
	return column, c.Code, scales
}
