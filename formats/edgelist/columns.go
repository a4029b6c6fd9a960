package edgelist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/khop-gnn/khop/formats/source"
	"github.com/khop-gnn/khop/graph"
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
	dropped string // why it is not stored
}

func storable(d unified.DType) bool {
	switch d {
	case unified.Int8, unified.Int16, unified.Int32, unified.Int64, unified.Float32, unified.Float64:
		return true
	}
	return false
}

// add parses a value.
func (c *column) add(f []byte) error {
	if c.dropped != "" {
		return nil
	}
	var word [8]byte
	if c.dtype != unified.Invalid {
		if err := c.encode(&word, f); err != nil {
			return err
		}
		return c.store(word[:c.dtype.Size()])
	}
	if !c.floats {
		v, err := strconv.ParseInt(string(f), 10, 64)
		if err == nil && v < 0 && c.name == "weight" {
			return c.badWeight(f)
		}
		if err == nil {
			binary.LittleEndian.PutUint64(word[:], uint64(v))
			return c.store(word[:])
		}
		c.floats, c.ints = true, c.rows
	}
	x, err := c.float(f)
	if err != nil {
		if c.explicit || c.name == "weight" || c.name == "time" {
			return err
		}
		c.dropped = fmt.Sprintf("field %q is not stored: %v (edge %d)", c.name, err, c.rows)
		return nil
	}
	binary.LittleEndian.PutUint64(word[:], math.Float64bits(x))
	return c.store(word[:])
}

func (c *column) store(b []byte) error {
	c.rows++
	_, err := c.spool.Write(b)
	return err
}

func (c *column) float(f []byte) (float64, error) {
	x, err := strconv.ParseFloat(string(f), 64)
	if err != nil {
		return 0, badf("", "column %q: %q is not a number", c.name, clip(f))
	}
	if c.name == "weight" && (!(x >= 0) || math.IsInf(x, 0)) {
		return 0, c.badWeight(f)
	}
	return x, nil
}

func (c *column) badWeight(f []byte) error {
	return badf("correct it, remove the edge, or give the column another name by --columns",
		"column %q: %s is not a weight: it must be finite and not negative", c.name, clip(f))
}

// encode parses a value of a given type.
func (c *column) encode(word *[8]byte, f []byte) error {
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
	var buf []byte
	for at := int64(0); at < 8*c.ints; at += 8 {
		x := float64(int64(binary.LittleEndian.Uint64(data[at:])))
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
		if len(buf) >= 1<<16 {
			if _, err := again.Write(buf); err != nil {
				return col, nil, err
			}
			buf = buf[:0]
		}
	}
	if _, err := again.Write(buf); err != nil {
		return col, nil, err
	}
	for rest := data[8*c.ints:]; len(rest) > 0; rest = rest[min(1<<20, len(rest)):] {
		if _, err := again.Write(rest[:min(1<<20, len(rest))]); err != nil {
			return col, nil, err
		}
	}
	data, err = again.Bytes()
	return col, data, err
}
