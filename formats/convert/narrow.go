package convert

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// narrow stores the rows of floating-point numbers as FeatureDType.
func (c *conversion) narrow(context.Context) error {
	choices, err := c.opt.narrowing()
	if err != nil || !choices.Any() {
		return err
	}
	if name := choices.Missing(c.hasColumn); name != "" {
		return option.Errorf(ErrOptions, c.opt, "FeatureDType", ": no nodes have a column %q", name)
	}
	narrowed := false
	for t := range c.graph.Nodes {
		n := &c.graph.Nodes[t]
		for i, col := range n.Columns {
			if as, ok := c.narrower(col, choices.For(col.Name)); ok {
				narrowed = true
				n.Columns[i] = c.narrowed(col, as, n.Count)
				if as.DType == unified.Int8 {
					scale := graph.Column{Name: graph.ScaleOf(col.Name), DType: unified.Float32}
					n.Columns = append(n.Columns, source.Column{Column: scale, Write: c.narrowWriter(col, scale)})
				}
			}
		}
	}
	if !narrowed {
		c.graph.Note("no column has rows of floating-point numbers that %s makes smaller: all stay as they are",
			source.Few(c.opt.FeatureDType))
	}
	return nil
}

// narrowing returns what FeatureDType says.
func (o *Options) narrowing() (narrow.Choices, error) {
	allowed := append([]string{unified.Float16.String(), unified.BFloat16.String(), unified.Int8.String()},
		narrow.Names()...)
	choices, err := narrow.ParseChoices(o.FeatureDType, allowed)
	if err != nil {
		return choices, option.Errorf(ErrOptions, *o, "FeatureDType", ": %v", err)
	}
	return choices, nil
}

// hasColumn reports whether a type of nodes has a column.
func (c *conversion) hasColumn(name string) bool {
	for t := range c.graph.Nodes {
		if c.columnOf(t, name) >= 0 {
			return true
		}
	}
	return false
}

// narrower returns the narrowed column; ok is false where its rows are no smaller. Rows whose elements have kinds of
// their own, as those of a database, are not coded: new rows could not follow.
func (c *conversion) narrower(col source.Column, name string) (as graph.Column, ok bool) {
	if name == "" || len(col.Shape) == 0 || !col.DType.IsFloat() {
		return as, false
	}
	if slices.Contains(narrow.Names(), name) {
		if len(col.Fields) > 0 {
			c.graph.Note("rows of %q stay as they are: their elements have kinds of their own", col.Name)
			return as, false
		}
		as, err := col.Column.Coded(name)
		return as, err == nil && as.RowBytes() < col.RowBytes()
	}
	as = col.Column
	as.DType, _ = unified.ParseDType(name) // it is allowed
	return as, as.DType.Size() < col.DType.Size()
}

// narrowed returns a column as another.
func (c *conversion) narrowed(col source.Column, as graph.Column, rows int64) source.Column {
	c.graph.Note("%d rows of %q are stored as %v, not as %v: %s in place of %s", rows, col.Name, as.TypeName(),
		col.DType, machine.Bytes(rows*as.RowBytes()), machine.Bytes(rows*col.RowBytes()))
	return source.Column{Column: as, Write: c.narrowWriter(col, as)}
}

// narrowWriter writes the rows of a column as another: of floats of 16 bits, of int8, of a code, or the scales of int8.
func (c *conversion) narrowWriter(col source.Column, as graph.Column) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		n := &narrower{w: w, path: c.src, col: &col.Column, width: as.RowBytes(), store: storeAs(as)}
		return col.Write(ctx, &arrayfile.WholeRows{Row: col.RowBytes(), Take: n.take})
	}
}

// storeAs returns what writes a row of numbers as one of a column.
func storeAs(as graph.Column) func(to []byte, row []float32) error {
	switch {
	case as.Code != nil:
		return narrow.Of(as.Code.Name).Encode
	case as.DType == unified.Int8:
		return storeInt8
	case as.DType == unified.Float32:
		return storeScale
	}
	return func(to []byte, row []float32) error {
		if i := as.DType.PutFloats(to, row); i >= 0 {
			return fmt.Errorf("%g does not fit %v", row[i], as.DType)
		}
		return nil
	}
}

// narrower takes rows of a column, and passes them on as those of another.
type narrower struct {
	w     io.Writer
	path  string
	col   *graph.Column
	width int64 // bytes of a row that is passed on
	store func(to []byte, row []float32) error
	row   int64 // that comes next
	out   []byte
}

// narrowPiece is how many bytes of rows are narrowed at once, about.
const narrowPiece = 1 << 20

// take passes on whole rows, in pieces.
func (n *narrower) take(p []byte) error {
	piece := int(max(narrowPiece/n.col.RowBytes(), 1) * n.col.RowBytes())
	for ; len(p) > 0; p = p[min(piece, len(p)):] {
		if err := n.put(p[:min(piece, len(p))]); err != nil {
			return err
		}
	}
	return nil
}

// put passes on whole rows, on all cores.
func (n *narrower) put(p []byte) error {
	from, width := n.col.RowBytes(), n.width
	rows := int64(len(p)) / from
	if need := int(rows * width); cap(n.out) < need {
		n.out = make([]byte, need)
	}
	out := n.out[:rows*width]
	workers := max(1, min(int64(machine.Workers()), int64(len(p))/(64<<10)))
	if err := csc.Parallel(int(workers), func(w int) error {
		lo, hi := rows*int64(w)/workers, rows*int64(w+1)/workers
		values := make([]float32, n.col.Width())
		for r := lo; r < hi; r++ {
			n.col.DType.Floats(values, p[r*from:])
			if err := n.store(out[r*width:(r+1)*width], values); err != nil {
				return source.Error(n.path, n.col.Name, n.row+r,
					option.Textf("choose another %s", option.NameOf(Options{}, "FeatureDType")), err)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	n.row += rows
	_, err := n.w.Write(out)
	return err
}

// storeInt8 stores a row as multiples of its scale.
func storeInt8(to []byte, row []float32) error {
	scale, err := scaleOf(row)
	if err != nil {
		return err
	}
	for i, x := range row {
		to[i] = 0
		if scale > 0 {
			to[i] = byte(int8(max(-127, min(127, math.RoundToEven(float64(x)/float64(scale))))))
		}
	}
	return nil
}

// storeScale stores the scale of a row of int8.
func storeScale(to []byte, row []float32) error {
	scale, err := scaleOf(row)
	unified.Float32.Put(to, float64(scale))
	return err
}

// scaleOf returns what the greatest number of a row is 127 times of.
func scaleOf(row []float32) (float32, error) {
	most, err := narrow.Greatest(row, unified.Int8.String())
	return most / 127, err
}
