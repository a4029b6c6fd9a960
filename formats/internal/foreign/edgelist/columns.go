package edgelist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/unified"
)

// column is a column of edges being read.
type column struct {
	columnSpec
	// 8 bytes a value: int64 up to row ints, float64 from there on; if the type is given, of that type
	spool   source.Spool
	rows    int64
	ints    int64
	floats  bool
	dropped *option.Text // why it is not stored; nil: it is
	gone    atomic.Bool  // it is not stored; for workers
}

// values are those of a column in a piece.
type values struct {
	data    []byte // as that of a column
	rows    int
	ints    int
	floats  bool
	dropped error // of the value that follows
}

func storable(d unified.DType) bool {
	switch d {
	case unified.Int8, unified.Int16, unified.Int32, unified.Int64, unified.Float32, unified.Float64:
		return true
	}
	return false
}

// add parses a value.
func (v *values) add(c *columnSpec, f []byte) error {
	if v.dropped != nil {
		return nil
	}
	if c.nulls[string(f)] {
		return v.addMissing(c, f)
	}
	var word [8]byte
	if c.dtype != unified.Invalid {
		if err := c.encode(&word, f); err != nil {
			return err
		}
		v.data = append(v.data, word[:c.dtype.Size()]...)
		v.rows++
		return nil
	}
	if !v.floats {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err == nil && n < 0 && c.name == "weight" {
			return c.badWeight(f)
		}
		if err == nil {
			v.putInt(c, n, false)
			return nil
		}
	}
	x, err := c.float(f)
	if err != nil {
		if c.explicit || c.name == "weight" || c.name == "time" {
			return err
		}
		if v.dropped = err; source.IsNull(string(f)) || v.rows > 0 {
			v.dropped = option.Textf("%w; %s %[3]s takes it for a missing value", err, option.Named("Null"), clip(f))
		}
		return nil
	}
	v.beginFloats()
	v.putFloat(c, x)
	return nil
}

// addMissing adds a value that is missing: NaN; of whole numbers of time the one that stands for no time.
func (v *values) addMissing(c *columnSpec, f []byte) error {
	whole := c.dtype != unified.Invalid && c.dtype != unified.Float32 && c.dtype != unified.Float64
	switch {
	case c.name == "weight":
		return c.badWeight(f)
	case c.name == "time" && (c.dtype == unified.Int64 || c.dtype == unified.Invalid && !v.floats):
		v.putInt(c, source.NoTime, false)
	case whole:
		return badf(option.Textf("make it one of floats by %s", option.Named("Columns")),
			"column %q: %s is missing, which %v does not hold", c.name, clip(f), c.dtype)
	default:
		if c.dtype == unified.Invalid {
			v.beginFloats()
		}
		v.putFloat(c, math.NaN())
	}
	return nil
}

// beginFloats says that the values from here on are float64.
func (v *values) beginFloats() {
	if !v.floats {
		v.floats, v.ints = true, v.rows
	}
}

// truncate removes what a line has stored before it was found to be wrong.
func (p *piece) truncate() {
	for i := range p.columns {
		if v := &p.columns[i]; v.rows > p.rows() {
			v.data = v.data[:len(v.data)/v.rows*p.rows()]
			v.rows = p.rows()
			v.floats = v.floats && v.ints < v.rows
		}
	}
}

// take stores the values of a piece with this number of rows.
func (c *column) take(v *values, rows int64) error {
	if c.dropped != nil {
		return nil
	}
	if v.dropped != nil {
		c.dropped = option.Textf("field %q is not stored: %w (edge %d)", c.name, v.dropped, c.rows+int64(v.rows))
		c.gone.Store(true)
		return c.spool.Close()
	}
	if int64(v.rows) != rows {
		return fmt.Errorf("column %q: %d values for %d edges", c.name, v.rows, rows)
	}
	switch {
	case c.dtype != unified.Invalid:
	case c.floats:
		ints := v.rows
		if v.floats {
			ints = v.ints
		}
		floatsOf(v.data[:8*ints])
	case v.floats:
		c.floats, c.ints = true, c.rows+int64(v.ints)
	}
	c.rows += rows
	_, err := c.spool.Write(v.data)
	return err
}

// floatsOf makes int64 the float64 that they are; source.NoTime stands for a missing one.
func floatsOf(data []byte) {
	for at := 0; at < len(data); at += 8 {
		v := int64(binary.LittleEndian.Uint64(data[at:]))
		x := float64(v)
		if v == source.NoTime {
			x = math.NaN()
		}
		binary.LittleEndian.PutUint64(data[at:], math.Float64bits(x))
	}
}

func (c *columnSpec) float(f []byte) (float64, error) {
	x, err := strconv.ParseFloat(string(f), 64)
	if err != nil {
		return 0, badf("", "column %q: %q is not a number", c.name, clip(f))
	}
	if c.name == "weight" && (!(x >= 0) || math.IsInf(x, 0)) {
		return 0, c.badWeight(f)
	}
	return x, nil
}

func (c *columnSpec) badWeight(f []byte) error {
	return badf(option.Textf("correct it, remove the edge, or give the column another name by %s",
		option.Named("Columns")),
		"column %q: %s is not a weight: it must be finite and not negative", c.name, clip(f))
}

// encode parses a value of a given type.
func (c *columnSpec) encode(word *[8]byte, f []byte) error {
	size := int(c.dtype.Size())
	if c.dtype == unified.Float32 || c.dtype == unified.Float64 {
		x, err := c.float(f)
		if err != nil {
			return err
		}
		if c.dtype == unified.Float64 {
			binary.LittleEndian.PutUint64(word[:], math.Float64bits(x))
			return nil
		}
		if math.IsInf(float64(float32(x)), 0) && !math.IsInf(x, 0) {
			return badf("", "column %q: %s does not fit float32", c.name, clip(f))
		}
		binary.LittleEndian.PutUint32(word[:], math.Float32bits(float32(x)))
		return nil
	}
	v, err := strconv.ParseInt(string(f), 10, 8*size)
	if errors.Is(err, strconv.ErrRange) {
		return badf("", "column %q: %s does not fit %v", c.name, clip(f), c.dtype)
	}
	if err != nil {
		return badf("", "column %q: %q is not a whole number", c.name, clip(f))
	}
	binary.LittleEndian.PutUint64(word[:], uint64(v))
	return nil
}

// finish returns the column and its elements. The graph owns their memory.
func (c *column) finish(g *source.Graph) (col graph.Column, data []byte, err error) {
	col = graph.Column{Name: c.name, DType: c.dtype}
	if col.DType == unified.Invalid {
		col.DType = unified.Int64
		if c.floats {
			col.DType = unified.Float64
		}
	}
	data, err = c.spool.Bytes()
	if err != nil || c.dtype != unified.Invalid || !c.floats || c.ints == 0 {
		return col, data, err
	}
	// The first values are integers: write them again, as the floats that they turned out to be.
	again := &source.Spool{Budget: c.spool.Budget}
	g.Own(again)
	buf := make([]byte, 0, 1<<16)
	for at := int64(0); at < 8*c.ints; at += int64(len(buf)) {
		buf = append(buf[:0], data[at:min(at+1<<16, 8*c.ints)]...)
		floatsOf(buf)
		if _, err := again.Write(buf); err != nil {
			return col, nil, err
		}
	}
	for rest := data[8*c.ints:]; len(rest) > 0; rest = rest[min(1<<20, len(rest)):] {
		if _, err := again.Write(rest[:min(1<<20, len(rest))]); err != nil {
			return col, nil, err
		}
	}
	data, err = again.Bytes()
	return col, data, err
}
