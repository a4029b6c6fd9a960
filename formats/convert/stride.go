package convert

import (
	"context"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option"
)

// maxStride is the greatest RowStride: the alignment of large arrays in their files.
const maxStride = 1 << 16

// pad makes rows of numbers longer by zeros, to multiples of RowStride. Rows whose elements have kinds of their own, as
// those of a database, stay as they are: added zeros would have no kind, and new rows could not follow.
func (c *conversion) pad(context.Context) error {
	stride := c.opt.RowStride
	if stride == 0 {
		return nil
	}
	if stride < 8 || stride > maxStride || stride&(stride-1) != 0 {
		return fmt.Errorf("%w: a row stride is a power of two from 8 to %d bytes, not %d", ErrOptions, maxStride,
			stride)
	}
	rows := 0
	var told []string
	for t := range c.graph.Nodes {
		n := &c.graph.Nodes[t]
		for i, col := range n.Columns {
			if len(col.Shape) != 1 {
				continue
			}
			rows++
			if len(col.Fields) > 0 {
				told = append(told, n.Name+":"+col.Name)
				continue
			}
			if col.RowBytes()%stride != 0 {
				n.Columns[i] = c.padded(col, n.Count)
			}
		}
	}
	if told != nil {
		c.graph.Note("%s does not change rows whose elements have kinds of their own: %s", option.NameOf(c.opt,
			"RowStride"), source.Few(told))
	}
	if rows == 0 {
		c.graph.Note("no column of nodes has rows of several numbers: %s changes none",
			option.NameOf(c.opt, "RowStride"))
	}
	return nil
}

// padded returns a column with longer rows.
func (c *conversion) padded(col source.Column, rows int64) source.Column {
	row, size := col.RowBytes(), col.DType.Size()
	whole := (row + c.opt.RowStride - 1) / c.opt.RowStride * c.opt.RowStride
	c.graph.Note("rows of %q have %d elements in place of %d, the last are 0: %d bytes each, in all %s in place of %s",
		col.Name, whole/size, col.Width(), whole, machine.Bytes(rows*whole), machine.Bytes(rows*row))
	as := graph.Column{Name: col.Name, DType: col.DType, Shape: []int64{whole / size}, Code: col.Code}
	return source.Column{Column: as, Write: func(ctx context.Context, w io.Writer) error {
		var out []byte
		zeros := make([]byte, whole-row)
		return col.Write(ctx, &arrayfile.WholeRows{Row: row, Take: func(rows []byte) error {
			for out = out[:0]; len(rows) > 0; rows = rows[row:] {
				out = append(append(out, rows[:row]...), zeros...)
			}
			_, err := w.Write(out)
			return err
		}})
	}}
}
