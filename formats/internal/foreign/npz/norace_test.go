//go:build !race

package npz

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// TestNothingIsExpandedThatCannotFit reads archives of some kilobytes that expand a thousandfold. Shapes and the limit
// are compared first; edges are streamed, in any limit.
func TestNothingIsExpandedThatCannotFit(t *testing.T) {
	const n, limit = 2 << 20, 4 << 20
	for _, c := range []struct {
		name    string
		members []member
		limit   int64 // 0: none
		is      error
		says    string
	}{
		{"edges", []member{zeros("edges", "|i1", fmt.Sprintf("(%d, 2)", n), 2*n), numpy("node_labels", "", int8(1))},
			limit, nil, ""},
		{"edges in columns", []member{zeros("edges", "|i1", fmt.Sprintf("(2, %d)", n), 2*n),
			numpy("node_labels", "", int8(1))}, limit, nil, ""},
		{"labels", []member{numpy("edges", "(1, 2)", int8(0), 0), zeros("node_labels", "|i1", fmt.Sprintf("(%d,)", n),
			n)}, limit, pinned.ErrLimit, "16.8 MB"},
		{"a matrix", []member{zeros("indptr", "|i1", fmt.Sprintf("(%d,)", n), n), zeros("indices", "|i1", "(0,)", 0)},
			limit, nil, ""},
		{"labels of others", with(dense(), zeros("node_labels", "|i1", fmt.Sprintf("(%d,)", n), n)), 0, nil,
			"(2097152), but there are 3 nodes"},
		{"masks of others", with(dense(), zeros("train_masks", "|b1", fmt.Sprintf("(2, %d)", n), 2*n)), 0, nil,
			"(2, 2097152), but there are 3 nodes"},
		{"values of others", with(sparse(), zeros("adj_matrix.data", "|i1", fmt.Sprintf("(%d,)", n), n)), 0, nil,
			"there are 3 indices"},
		{"features of others", with(sparse(), zeros("attr_matrix.indptr", "|i1", fmt.Sprintf("(%d,)", n), n)), 0, nil,
			"2097151 rows, but there are 3 nodes"},
		{"a shape that is none", with(sparse(), zeros("adj_matrix.shape", "|i1", fmt.Sprintf("(%d,)", n), n)), 0, nil,
			"2097152 numbers"},
		{"names of others", with(sparse(), zeros("node_names", "<U2", fmt.Sprintf("(%d,)", n/8), n)), 0, nil, ""},
		{"splits without end", with(dense(), zeros("train_masks", "|b1", "(2000000, 3)", 6_000_000)), 0, nil,
			"2000000 splits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := save(t, pack(t, c.members...))
			ledger := sourcetest.Limited(c.limit)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			g, err := Read(context.Background(), source.Local(path), &source.Request{
				Budget: &source.Budget{Memory: ledger}})
			runtime.ReadMemStats(&after)
			made := after.TotalAlloc - before.TotalAlloc
			expect.That(t, made <= 1<<20 || c.says == "" && made <= 24<<20, "%d bytes of memory were made", made)
			if err == nil {
				err = g.Close()
				if c.says == "" && err == nil {
					return
				}
			}
			expect.That(t, err != nil && (c.is == nil || errors.Is(err, c.is)) && strings.Contains(err.Error(),
				c.says), "%v, want %v saying %q", err, c.is, c.says)
		})
	}
}
