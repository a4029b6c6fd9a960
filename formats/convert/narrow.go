package convert

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/csc"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// narrow stores the rows of floating-point numbers as FeatureDType.
func (c *conversion) narrow(context.Context) error {
	to := c.opt.FeatureDType
	if to == unified.Invalid {
		return nil
	}
	if !to.IsHalf() && to != unified.Int8 {
		return fmt.Errorf("%w: features are stored as floats of 16 bits or as int8, not as %v", ErrOptions, to)
	}
	narrowed := 0
	for t := range c.graph.Nodes {
		n := &c.graph.Nodes[t]
		for i, col := range n.Columns {
			if len(col.Shape) == 0 || !col.DType.IsFloat() || col.DType.Size() <= to.Size() {
				continue
			}
			narrowed++
			n.Columns[i] = c.narrowed(col, to, n.Count)
			if to == unified.Int8 {
				scale := graph.Column{Name: graph.ScaleOf(col.Name), DType: unified.Float32}
				n.Columns = append(n.Columns, source.Column{Column: scale, Write: c.narrowWriter(col, unified.Float32)})
			}
		}
	}
	if narrowed == 0 {
		c.graph.Note("no column has rows of floating-point numbers that %v makes smaller: all stay as they are", to)
	}
	return nil
}

// narrowed returns a column with other elements.
func (c *conversion) narrowed(col source.Column, to unified.DType, rows int64) source.Column {
	c.graph.Note("%d rows of %q are stored as %v, not as %v: %s in place of %s", rows, col.Name, to, col.DType,
		machine.Bytes(rows*col.Width()*to.Size()), machine.Bytes(rows*col.RowBytes()))
	as := col.Column
	as.DType = to
	return source.Column{Column: as, Write: c.narrowWriter(col, to)}
}

// narrowWriter writes the rows of a column as another type; Float32 stands for the scales of int8.
func (c *conversion) narrowWriter(col source.Column, to unified.DType) func(context.Context, io.Writer) error {
	return func(ctx context.Context, w io.Writer) error {
		n := &narrower{w: w, path: c.src, col: &col.Column, to: to}
		return col.Write(ctx, &arrayfile.WholeRows{Row: col.RowBytes(), Take: n.take})
	}
}

// narrower takes rows of a column, and passes them on as another type.
type narrower struct {
	w    io.Writer
	path string
	col  *graph.Column
	to   unified.DType
	row  int64 // that comes next
	out  []byte
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
	from, width := n.col.RowBytes(), n.col.Width()*n.to.Size()
	if n.to == unified.Float32 {
		width = 4
	}
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
			if err := narrowRow(out[r*width:(r+1)*width], values, n.to); err != nil {
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

// narrowRow stores a row; to is Float32 for the scale alone.
func narrowRow(out []byte, row []float32, to unified.DType) error {
	if to.IsHalf() {
		if i := to.PutFloats(out, row); i >= 0 {
			return fmt.Errorf("%g does not fit %v", row[i], to)
		}
		return nil
	}
	scale, err := scaleOf(row)
	if err != nil {
		return err
	}
	if to == unified.Float32 {
		to.Put(out, float64(scale))
		return nil
	}
	for i, x := range row {
		out[i] = 0
		if scale > 0 {
			out[i] = byte(int8(max(-127, min(127, math.RoundToEven(float64(x)/float64(scale))))))
		}
	}
	return nil
}

// scaleOf returns what the greatest number of a row is 127 times of.
func scaleOf(row []float32) (float32, error) {
	most := float32(0)
	for _, x := range row {
		if x != x || math.IsInf(float64(x), 0) {
			return 0, fmt.Errorf("%g cannot be stored as int8", x)
		}
		most = max(most, x, -x)
	}
	return most / 127, nil
}
