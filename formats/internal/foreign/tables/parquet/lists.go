package parquet

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
)

// raggedLevels is how many levels are read at a time.
const raggedLevels = 1 << 12

// raggedReader is where a decoder of ragged lists is: it reads more levels than the rows that are asked for have.
type raggedReader struct {
	levels, values int64 // that are read and not taken yet begin there
	count          int64 // levels that are read
	offsets        []int64
	put            func(k int)
}

// nextLists reads n rows of lists of any length. A list that is missing has no elements.
func (d *decoder) nextLists(n int64, v *columnar.Vector) error {
	r := &d.ragged
	*v = columnar.Vector{}
	r.offsets, d.data, d.texts = append(r.offsets[:0], 0), d.data[:0], d.texts[:0]
	elements, rows := int64(0), int64(0)
	for {
		if r.levels == r.count {
			if err := d.readLevels(); err != nil {
				return err
			}
		}
		if r.count == 0 || rows == n && d.rep[r.levels] == 0 {
			break
		}
		if d.rep[r.levels] == 0 {
			if rows++; rows > 1 {
				r.offsets = append(r.offsets, elements)
			}
		}
		if err := d.element(&elements); err != nil {
			return columnar.AtRow(int(max(rows-1, 0)), err)
		}
		r.levels++
	}
	if rows < n {
		return columnar.AtRow(int(rows), errors.New("the rows end here: it is cut short"))
	}
	if r.offsets = append(r.offsets, elements); n == 0 {
		r.offsets = r.offsets[:1]
	}
	v.Offsets, v.Data, v.Texts = r.offsets, d.data, d.texts
	return nil
}

// readLevels reads the next levels with their values; none at the end.
func (d *decoder) readLevels() error {
	r := &d.ragged
	levels, values, err := d.read(raggedLevels)
	if err != nil {
		return err
	}
	there := 0
	for _, def := range d.def[:levels] {
		if def == d.leaf.def {
			there++
		}
	}
	if there != values {
		return fmt.Errorf("%w: %d values, %d levels that say so", guard.ErrFormat, values, there)
	}
	r.levels, r.values, r.count = 0, 0, levels
	return nil
}

// element takes the element of a level, where it has one.
func (d *decoder) element(n *int64) error {
	r := &d.ragged
	switch def := d.def[r.levels]; {
	case def < d.leaf.inList:
		return nil // the list is empty, or missing
	case def < d.leaf.def:
		return errors.New("an element of the list is missing")
	}
	if d.field.Text {
		d.texts = append(d.texts, d.text(int(r.values))) // a page that is given back stays, as long as texts lie in it
	} else {
		if r.put == nil {
			r.put = d.put()
		}
		if r.put(int(r.values)); d.bad != nil {
			return d.bad
		}
	}
	r.values++
	*n++
	return nil
}

// sameWidths looks whether lists have as many elements as the first row's.
func (d *decoder) sameWidths(levels int64) error {
	width := max(d.field.Width, 1)
	for i := range levels {
		if first := i%width == 0; first != (d.rep[i] == 0) || d.field.Width > 0 && d.def[i] < d.leaf.inList {
			return columnar.AtRow(int(i/width), fmt.Errorf("its list is shorter or longer than the %d numbers of the "+
				"first row's", d.field.Width))
		}
	}
	if i := levels % width; i > 0 {
		return columnar.AtRow(int(levels/width), fmt.Errorf("its list has %d numbers, and the first row's %d", i,
			width))
	}
	return nil
}
