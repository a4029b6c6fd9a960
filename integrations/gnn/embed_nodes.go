package gnn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/unified"
)

// nodeType returns the type of the nodes whose rows are written.
func (o *EmbedOptions) nodeType(s *graph.Schema) (int, error) {
	var names []string
	for t := range s.Nodes {
		if o.Type == "" || s.Nodes[t].Name == o.Type {
			return t, nil
		}
		names = append(names, s.Nodes[t].Name)
	}
	return 0, option.Errorf(ErrOptions, *o, "Type", ": there are no nodes of type %q: there are %s", o.Type,
		strings.Join(names, ", "))
}

// mostList is how many bytes a file of ids may have.
const mostList = 1 << 32

// nodes returns the nodes that were asked for, ascending and each once; nil: all.
func (o *EmbedOptions) nodes(ctx context.Context, count int64) ([]int32, error) {
	if o.Nodes == "" {
		return nil, nil
	}
	wrong := func(format string, args ...any) error { return option.Errorf(ErrOptions, *o, "Nodes", format, args...) }
	if count > math.MaxInt32 {
		return nil, wrong(": the graph has %d nodes, and some of them are chosen of up to %d", count, math.MaxInt32)
	}
	words := []string{o.Nodes}
	if path, ok := strings.CutPrefix(o.Nodes, "@"); ok {
		text, err := wholefile.Input(ctx, path, mostList)
		if err != nil {
			return nil, err
		}
		words = strings.Fields(string(text))
	}
	var list []int32
	for i, word := range words {
		from, to, ranged := strings.Cut(word, "-")
		if !ranged {
			to = from
		}
		lo, err := strconv.ParseInt(from, 10, 64)
		hi, err2 := strconv.ParseInt(to, 10, 64)
		if err != nil || err2 != nil || lo < 0 || hi < lo || hi >= count {
			return nil, wrong(": number %d, %.20q, is no node, or range such as 0-99, of %d", i+1, word, count)
		}
		for v := lo; v <= hi; v++ {
			list = append(list, int32(v))
		}
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) == 0 {
		return nil, wrong(": there is none")
	}
	return list, nil
}

// toFile reports whether rows go to a file, and not to a column.
func (o *EmbedOptions) toFile() bool { return strings.HasSuffix(o.Out, ".npy") || o.toParquet() }

func (o *EmbedOptions) toParquet() bool { return strings.HasSuffix(o.Out, ".parquet") }

// file is that of rows.
func (e *embedding) file() wholefile.Output {
	return wholefile.Output{Path: e.opt.Out, Mode: 0o666, Force: e.opt.Force, From: []string{e.dir, e.opt.Checkpoint}}
}

// write writes the rows to a file, those of nodes that were asked for in their order.
func (e *embedding) write(ctx context.Context) error {
	rows, err := os.Open(filepath.Join(e.folder, e.out.Name))
	if err != nil {
		return err
	}
	defer rows.Close()
	from := &madeRows{rows: rows, count: e.out.Rows, row: int64(e.out.Width) * floatBytes}
	if e.p.Of != nil {
		from.of = e.p.Of[e.of]
		from.count = int64(len(from.of))
	}
	return e.file().Write(ctx, func(w io.Writer) error {
		if e.opt.toParquet() {
			return from.parquet(ctx, w, &e.opt)
		}
		return from.npy(ctx, w)
	})
}

// madeRows are the rows of nodes that were asked for, in a file of the rows of all nodes.
type madeRows struct {
	rows  io.ReaderAt
	of    []int32 // nil: all
	count int64
	row   int64 // bytes
}

// readBytes are read at a time.
const readBytes = 4 << 20

// each calls f with the ids of some nodes after those before, and their rows, which are valid until it returns.
func (m *madeRows) each(ctx context.Context, f func(ids []int64, raw []byte) error) error {
	step := max(readBytes/m.row, 1)
	ids, raw := make([]int64, 0, min(step, m.count)), make([]byte, min(step, m.count)*m.row)
	for lo := int64(0); lo < m.count; lo += step {
		n := min(step, m.count-lo)
		if ids = ids[:0]; m.of == nil {
			if _, err := m.rows.ReadAt(raw[:n*m.row], lo*m.row); err != nil {
				return err
			}
		}
		for i := range n {
			if m.of == nil {
				ids = append(ids, lo+i)
				continue
			}
			v := int64(m.of[lo+i])
			if _, err := m.rows.ReadAt(raw[i*m.row:(i+1)*m.row], v*m.row); err != nil {
				return err
			}
			ids = append(ids, v)
		}
		if err := errors.Join(f(ids, raw[:n*m.row]), context.Cause(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// npy writes the rows as an array.
func (m *madeRows) npy(ctx context.Context, w io.Writer) error {
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", m.count, m.row/floatBytes)
	const before, unit = 10, 64 // of the format: bytes before the text, and what rows begin at a multiple of
	head += strings.Repeat(" ", unit-1-(before+len(head))%unit) + "\n"
	if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", len(head)&0xff, len(head)>>8, head); err != nil {
		return err
	}
	return m.each(ctx, func(_ []int64, raw []byte) error {
		_, err := w.Write(raw)
		return err
	})
}

// parquet writes the rows as a table: the nodes' ids, and a list of numbers each.
func (m *madeRows) parquet(ctx context.Context, w io.Writer, opt *EmbedOptions) error {
	put, end, err := opt.Parquet(w, []graph.Column{{Name: "id", DType: unified.Int64},
		{Name: "embedding", DType: unified.Float32, Shape: []int64{m.row / floatBytes}}})
	if err != nil {
		return err
	}
	return errors.Join(m.each(ctx, func(ids []int64, raw []byte) error {
		return put([][]byte{unified.FromSlice(ids).Bytes(), raw})
	}), end())
}
