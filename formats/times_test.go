package formats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// halves are the bits of numbers of 16 bits.
func halves(bits ...uint16) []uint16 { return bits }

// Times order edges in whatever type they are; of equal times the sources do. Floats must be numbers.
func TestCheckComparesTimesOfEveryType(t *testing.T) {
	ascending := map[unified.DType]any{unified.Int8: []int8{-128, -128, 127}, unified.Uint8: []uint8{127, 127, 128},
		unified.Int16: []int16{-1, -1, 0}, unified.Uint16: []uint16{32767, 32767, 32768}, unified.Int32: []int32{-1,
			-1, 0},
		unified.Int64: []int64{-1 << 63, -1 << 63, 1<<63 - 1}, unified.Uint64: []uint64{1<<63 - 1, 1<<63 - 1, 1 << 63},
		unified.Float32: []float32{-1.5, -1.5, 0.5}, unified.Float64: []float64{-1e300, -1e300, 0.25},
		unified.Float16:  halves(0xbc00, 0xbc00, 0x3c00), // -1, -1, 1
		unified.BFloat16: halves(0xbf80, 0xbf80, 0x3f80)}
	for dtype, times := range ascending {
		var b bytes.Buffer
		writeLittle(t, &b, times)
		size := int(dtype.Size())
		for name, order := range map[string][]int{"": {0, 1, 2}, "does not come after": {2, 1, 0}} {
			var data []byte
			for _, i := range order {
				data = append(data, b.Bytes()[i*size:(i+1)*size]...)
			}
			report := checkTimes(t, dtype, data, []int32{1, 2, 0})
			if found := fmt.Sprint(report.Problems); report.OK() != (name == "") || !strings.Contains(found, name) {
				t.Errorf("%v, %q: %v", dtype, name, found)
			}
		}
		report := checkTimes(t, dtype, b.Bytes(), []int32{2, 1, 0})
		expect.That(t, !report.OK(), "%v: sources of edges at one time in disorder are not found", dtype)
	}
	for dtype, times := range map[unified.DType]any{unified.Float32: []float32{1, 2, float32(nan())},
		unified.Float64: []float64{1, 2, nan()}, unified.Float16: halves(0x3c00, 0x4000, 0x7e00),
		unified.BFloat16: halves(0x3f80, 0x4000, 0x7fc0)} {
		var b bytes.Buffer
		writeLittle(t, &b, times)
		report := checkTimes(t, dtype, b.Bytes(), []int32{1, 2, 0})
		var e *Error
		if len(report.Problems) != 1 || !errors.As(report.Problems[0], &e) || e.Row != 2 ||
			!strings.Contains(e.Error(), "its time is not a number") {
			t.Errorf("NaN of %v: %v", dtype, report.Problems)
		}
	}
}

// checkTimes checks a graph of three in-edges of a node, in order of time.
func checkTimes(t *testing.T, dtype unified.DType, times []byte, sources []int32) *Report {
	t.Helper()
	a := graph.Arrays{Schema: plainSchema(3, 3), Indptr: unified.FromSlice([]int64{0, 3, 3, 3}),
		Indices:     unified.FromSlice(sources),
		EdgeColumns: map[string]unified.Tensor{"time": tensor(t, dtype, times, 3)}}
	a.Schema.Edges[0].Order = graph.ByTime
	a.Schema.EdgeColumns = []graph.Column{{Name: "time", DType: dtype}}
	report := expect.Must(Check(context.Background(), write(t, a, WriterOptions{}), CheckOptions{}))(t)
	return report
}

// A column of fewer rows than were announced at most is, to the byte, the one of which as many were announced.
func TestAColumnOfFewerRowsIsAsIfTheyHadBeenAnnounced(t *testing.T) {
	const seed = 20261127
	r := rand.New(rand.NewPCG(seed, 0))
	w := expect.Must(Create(filepath.Join(scratchDir(t), "x.khop"), WriterOptions{}))(t)
	defer func() { expect.OK(t, w.Abort()) }()
	n := 0
	column := func(most, rows int64, data []byte) []byte {
		n++
		name := fmt.Sprintf("column %04d", n)
		c := expect.Must(w.NodeColumn(0, graph.Column{Name: name, DType: unified.Int32, Shape: []int64{3}}, most))(t)
		if most > rows {
			c.AtMost()
		}
		for left := data; len(left) > 0; {
			k := min(len(left), 1+r.IntN(1<<17))
			_, err := c.Write(left[:k])
			expect.OK(t, err)
			left = left[k:]
		}
		path := c.a.path
		expect.OK(t, c.Close())
		file := expect.Must(os.ReadFile(path))(t)
		expect.That(t, c.a.part.Rows == rows && c.a.part.FileBytes == int64(len(file)),
			"%d of %d rows: %+v of %d bytes", rows, most, c.a.part, len(file))
		return bytes.ReplaceAll(file, []byte(name), []byte("column"))
	}
	for _, rows := range []int64{0, 1, 50, 5000, 100_000} {
		data := make([]byte, 12*rows)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		want := column(rows, rows, data)
		for _, most := range []int64{rows + 1, 2*rows + 7, 200_000} {
			expect.That(t, bytes.Equal(column(most, rows, data), want),
				"seed %d: %d rows, of which %d were announced at most, are another file", seed, rows, most)
		}
	}
	c := expect.Must(w.NodeColumn(0, graph.Column{Name: "part", DType: unified.Int32}, 10))(t)
	c.AtMost()
	feed(t, c, 7)
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "7 bytes written, but 10 rows take 40") {
		t.Errorf("a part of a row: %v", err)
	}
}

func writeLittle(t *testing.T, b *bytes.Buffer, v any) {
	t.Helper()
	expect.OK(t, binary.Write(b, binary.LittleEndian, v))
}

// Edges of a node are in the order of their types first, whatever their sources are.
func TestCheckFindsTypesOutOfOrder(t *testing.T) {
	a := graph.Arrays{Schema: plainSchema(3, 1), Indptr: unified.FromSlice([]int64{0, 2, 2, 2}),
		Indices: unified.FromSlice([]int32{1, 2}), Types: unified.FromSlice([]uint8{1, 0})}
	a.Schema.Edges = append(a.Schema.Edges, graph.EdgeType{Source: "node", Relation: "other", Target: "node", Count: 1})
	report, err := Check(context.Background(), write(t, a, WriterOptions{}), CheckOptions{})
	var e *Error
	expect.That(t, err == nil && len(report.Problems) == 1 && errors.As(report.Problems[0], &e) && e.Row == 1 &&
		strings.Contains(e.Error(), "does not come after"), "%+v, %v", report, err)
}

// A manifest may be as deep, and have as many objects and values, as its limits say, and not one more.
func TestManifestsAreNestedSoFarAndNoFurther(t *testing.T) {
	for name, text := range map[string]func(n int) string{
		"deep":    func(n int) string { return strings.Repeat("[", maxDepth+n) + strings.Repeat("]", maxDepth+n) },
		"objects": func(n int) string { return strings.Repeat("{}", maxObjects+n) },
		"values":  func(n int) string { return `{"a\\\",":[` + strings.Repeat("1,", maxValues+n) + "1]}" },
	} {
		expect.Is(t, checkNesting([]byte(text(0))), nil, name)
		expect.Is(t, checkNesting([]byte(text(1))), ErrCorrupt, "%s, one more", name)
	}
}
