package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestColumnsThatLieTogetherAreWrittenTogether has 70 columns of a table, of which as many are written at a time as a
// quarter of the memory allows, and one that lies elsewhere among them.
func TestColumnsThatLieTogetherAreWrittenTogether(t *testing.T) {
	row := func(number int) []byte { return []byte{byte(number), byte(number >> 8), 1, 2, 3, 4, 5, 6} }
	for _, c := range []struct {
		memory int64
		want   []int // columns of each reading
	}{{0, []int{60, 10}}, {4 * 20 * arrayfile.WriterMemory, []int{20, 20, 20, 10}}, {1, nil}} {
		conv := &conversion{graph: source.Plain()}
		conv.ledger.SetLimit(c.memory)
		var got []int
		table := &source.Together{Write: func(_ context.Context, numbers []int, to []io.Writer) error {
			got = append(got, len(numbers))
			for i, k := range numbers {
				if _, err := to[i].Write(row(k)); err != nil {
					return err
				}
			}
			return nil
		}}
		n := conv.graph.Node()
		n.Count = 1
		for i := range 70 {
			col := source.Bytes(graph.Column{Name: fmt.Sprintf("c%d", i), DType: unified.Int64}, row(i))
			col.Together, col.Number = table, i
			if n.Columns = append(n.Columns, col); i == 59 {
				n.Columns = append(n.Columns, source.Bytes(graph.Column{Name: "x", DType: unified.Int64}, row(7)))
			}
		}
		ds := conv.columnsAlone(t)
		expect.That(t, slices.Equal(got, c.want) && conv.ledger.Total() == 0,
			"within %d bytes: read %v times, not %v; %d bytes stay counted", c.memory, got, c.want, conv.ledger.Total())
		for i := range 70 {
			v, ok := ds.Graph().NodeColumn(0, fmt.Sprintf("c%d", i))
			expect.Ensure(t, ok && slices.Equal(v.Bytes(), row(i)), "column %d is %v", i, v.Bytes())
		}
	}
}

// columnsAlone writes a dataset of the columns, without edges, and opens it.
func (c *conversion) columnsAlone(t *testing.T) *formats.Dataset {
	t.Helper()
	dst := filepath.Join(t.TempDir(), "x.khop")
	w, err := formats.Create(dst, formats.WriterOptions{})
	if err == nil {
		err = c.writeColumns(t.Context(), w, &graph.Schema{})
	}
	expect.OK(t, err)
	indptr, err := w.Topology("indptr", unified.Int64, c.graph.Node().Count+1)
	err = fill(indptr, err, func() error {
		_, err := indptr.Write(make([]byte, 8*(c.graph.Node().Count+1)))
		return err
	})
	indices, err2 := w.Topology("indices", unified.Int32, 0)
	err2 = fill(indices, err2, func() error { return nil })
	s, err3 := c.schema(&order{c: c, opt: edgesort.Options{ByTime: -1}})
	expect.OK(t, errors.Join(err, err2, err3))
	expect.OK(t, w.Commit(*s))
	ds := expect.Must(formats.Open(dst))(t)
	t.Cleanup(func() { _ = ds.Close() })
	return ds
}
