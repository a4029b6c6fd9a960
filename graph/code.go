package graph

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/narrow"
	"github.com/khop-gnn/khop/unified"
)

// Code says how rows of bytes encode the numbers of a column, in fewer bytes than any numeric type takes
// (docs/format.md, "Coded rows"). Readers that do not know a code read bytes.
type Code struct {
	Name  string  `json:"name"`  // int4
	Shape []int64 `json:"shape"` // of a row of numbers
	Group int64   `json:"group"` // numbers that share a scale
	// Bound is the greatest difference between a number and its decoded value, as a share of the greatest number of its
	// group.
	Bound float64 `json:"bound"`
}

// Coded returns the column that holds the rows of c in a code. ErrSchema if there is no such code.
func (c Column) Coded(name string) (Column, error) {
	of := narrow.Of(name)
	if of == nil {
		return Column{}, fmt.Errorf("%w: no code %q", ErrSchema, name)
	}
	c.Code = &Code{Name: name, Shape: c.Shape, Group: int64(of.Group), Bound: of.Bound}
	c.DType, c.Shape = unified.Uint8, []int64{wholeLines(of.RowBytes(c.Width()))}
	return c, nil
}

// wholeLines returns a few bytes more where no row then lies in more lines than it fills.
func wholeLines(n int64) int64 {
	const line = 64
	whole := int64(1)
	for whole < n && whole < line {
		whole *= 2
	}
	if n > line {
		whole = (n + line - 1) / line * line
	}
	if 8*(whole-n) > n {
		return n
	}
	return whole
}

// Numbers returns the column of decoded numbers: c itself, or float32 rows if c is coded.
func (c Column) Numbers() Column {
	if c.Code != nil {
		c.DType, c.Shape, c.Code = unified.Float32, c.Code.Shape, nil
	}
	return c
}

// TypeName returns the name of the type in which numbers are stored: that of the code, or of the dtype.
func (c Column) TypeName() string {
	if c.Code != nil {
		return c.Code.Name
	}
	return c.DType.String()
}

// checkCode refuses a code that there is not, or whose rows the column's do not hold.
func (c Column) checkCode() error {
	if c.Code == nil {
		return nil
	}
	of := narrow.Of(c.Code.Name)
	if of == nil {
		return fmt.Errorf("%w: column %q: no code %q", ErrSchema, c.Name, c.Code.Name)
	}
	width, fits := int64(1), len(c.Code.Shape) > 0 && len(c.Code.Shape) < unified.MaxRank
	for _, d := range c.Code.Shape {
		fits = fits && d > 0 && width <= (1<<31)/d
		width *= max(d, 1)
	}
	if !fits || c.DType != unified.Uint8 || len(c.Shape) != 1 || c.Shape[0] < of.RowBytes(width) {
		return fmt.Errorf("%w: column %q: rows %v of %s are not in rows %v of %v", ErrSchema, c.Name, c.Code.Shape,
			of.Name, c.Shape, c.DType)
	}
	return nil
}
