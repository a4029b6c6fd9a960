package gnn

import (
	"context"
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

// toFile reports whether rows go to a .npy file, and not to a column.
func (o *EmbedOptions) toFile() bool { return strings.HasSuffix(o.Out, ".npy") }

// file is that of rows.
func (e *embedding) file() wholefile.Output {
	return wholefile.Output{Path: e.opt.Out, Mode: 0o666, Force: e.opt.Force, From: []string{e.dir, e.opt.Checkpoint}}
}

// write writes the rows to a .npy file, those of nodes that were asked for in their order.
func (e *embedding) write(ctx context.Context) error {
	rows, err := os.Open(filepath.Join(e.folder, e.out.Name))
	if err != nil {
		return err
	}
	defer rows.Close()
	count, width := e.out.Rows, int64(e.out.Width)
	var of []int32
	if e.p.Of != nil {
		of = e.p.Of[e.of]
		count = int64(len(of))
	}
	head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", count, width)
	const before, unit = 10, 64 // of the format: bytes before the text, and what rows begin at a multiple of
	head += strings.Repeat(" ", unit-1-(before+len(head))%unit) + "\n"
	return e.file().Write(ctx, func(w io.Writer) error {
		if _, err := fmt.Fprintf(w, "\x93NUMPY\x01\x00%c%c%s", len(head)&0xff, len(head)>>8, head); err != nil {
			return err
		}
		if of == nil {
			_, err := io.Copy(w, io.LimitReader(rows, count*width*floatBytes))
			return err
		}
		row := make([]byte, width*floatBytes)
		for _, v := range of {
			if _, err := rows.ReadAt(row, int64(v)*int64(len(row))); err != nil {
				return err
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	})
}
