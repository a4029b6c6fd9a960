package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/parquet"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
)

// chunk reads the levels and values of a column of a group of rows.
type chunk struct {
	*pages
	kind    parquet.Type
	size    int   // bytes of a value; 0: they are texts
	maxDef  int16 // of levels
	maxRep  int16
	left    int64 // levels of the page that are still to come
	defs    hybrid
	reps    hybrid
	dict    dictionary
	more    func(n int) error // appends the next values of the page to raw, or found
	last    []byte            // text that the next one may begin as
	raw     []byte            // values that were read last, one behind the other
	found   [][]byte          // texts that were read last, valid until the next are read
	indices []uint32
}

// dictionary is the values that a column's pages have the numbers of.
type dictionary struct {
	count int64 // -1: there is none
	data  []byte
	at    []uint32 // of texts: where each begins, with its length
}

func (p *pages) chunk() (*chunk, error) {
	c := &chunk{pages: p, kind: p.column.PhysicalType(), maxDef: p.column.MaxDefinitionLevel(),
		maxRep: p.column.MaxRepetitionLevel(), dict: dictionary{count: -1}}
	switch c.kind {
	case parquet.Types.ByteArray:
		return c, nil
	case parquet.Types.Boolean:
		c.size = 1
	case parquet.Types.Int32, parquet.Types.Float:
		c.size = 4
	case parquet.Types.Int64, parquet.Types.Double:
		c.size = 8
	case parquet.Types.Int96:
		c.size = 12
	case parquet.Types.FixedLenByteArray:
		c.size = p.column.TypeLength()
	}
	if c.size <= 0 || c.size > columnar.MaxWidth {
		return nil, fmt.Errorf("values of %d bytes", c.size)
	}
	return c, nil
}

// read reads as many levels as there is room for, and the values of those that have one. Fewer are the last ones.
func (c *chunk) read(def, rep []int16) (levels int64, values int, err error) {
	c.raw, c.found = c.raw[:0], c.found[:0]
	c.giveBack()
	for levels < int64(len(def)) {
		if c.left == 0 {
			if more, err := c.open(); !more || err != nil {
				return levels, values, err
			}
		}
		n := min(c.left, int64(len(def))-levels)
		there, err := c.levels(def[levels:levels+n], rep[levels:levels+n])
		if err == nil {
			err = c.more(there)
		}
		if err != nil {
			return levels, values, fmt.Errorf("%w: the page before byte %d: %w", guard.ErrFormat, c.at, err)
		}
		c.left, levels, values = c.left-n, levels+n, values+there
	}
	return levels, values, nil
}

// levels reads levels, and returns how many of them have a value.
func (c *chunk) levels(def, rep []int16) (there int, err error) {
	if c.maxRep > 0 {
		if err := take(&c.reps, rep); err != nil {
			return 0, fmt.Errorf("repetition levels: %w", err)
		}
	}
	if c.maxDef == 0 {
		return len(def), nil
	}
	if err := take(&c.defs, def); err != nil {
		return 0, fmt.Errorf("definition levels: %w", err)
	}
	for _, d := range def {
		if d == c.maxDef {
			there++
		}
	}
	return there, nil
}

// open goes to the next page with levels; more is false at the end.
func (c *chunk) open() (more bool, err error) {
	for c.left == 0 {
		at := c.at
		p, err := c.next()
		if p == nil || err != nil {
			return false, err
		}
		if p.kind == dictionaryPage {
			err = c.learn(p)
		} else if p.values > 0 {
			c.left, c.reps, c.defs = p.values, newHybrid(p.reps, uint32(c.maxRep)), newHybrid(p.defs, uint32(c.maxDef))
			err = c.begin(p.data, p.encoding)
		}
		if err != nil {
			return false, fmt.Errorf("%w: the page at byte %d: %w", guard.ErrFormat, at, err)
		}
	}
	return true, nil
}

// learn reads the dictionary.
func (c *chunk) learn(p *page) error {
	if c.dict.count >= 0 {
		return errors.New("a second dictionary")
	}
	if p.encoding != parquet.Encodings.Plain && p.encoding != parquet.Encodings.PlainDict {
		return fmt.Errorf("%w: a dictionary as %v", guard.ErrUnread, p.encoding)
	}
	c.dict.count, c.dict.data = p.values, p.data
	if c.size > 0 {
		if c.kind == parquet.Types.Boolean || p.values > int64(len(p.data)/c.size) {
			return errFewBytes
		}
		return nil
	}
	if p.values > int64(len(p.data)/4) {
		return errFewBytes
	}
	c.dict.at = c.numbers(p.values)
	for i, at := 0, 0; i < len(c.dict.at); i++ {
		n, err := textLength(p.data[at:])
		if err != nil {
			return err
		}
		c.dict.at[i] = uint32(at)
		at += 4 + n
	}
	return nil
}

// textLength returns how long the text at the beginning is, behind four bytes that say so.
func textLength(data []byte) (int, error) {
	if len(data) < 4 || int64(binary.LittleEndian.Uint32(data)) > int64(len(data)-4) {
		return 0, errFewBytes
	}
	return int(binary.LittleEndian.Uint32(data)), nil
}

// begin chooses what reads the values of a page.
func (c *chunk) begin(data []byte, encoding parquet.Encoding) error {
	isBool := c.kind == parquet.Types.Boolean
	if len(data) == 0 {
		c.more = func(n int) error {
			if n > 0 {
				return errFewBytes
			}
			return nil
		}
		return nil
	}
	switch encoding {
	case parquet.Encodings.PlainDict, parquet.Encodings.RLEDict:
		return c.byNumber(data)
	case parquet.Encodings.Plain:
		c.more = func(n int) error { return c.plain(&data, n) }
		if isBool {
			h := hybrid{packed: data, width: 1, most: 1, run: 8 * int64(len(data))}
			c.more = func(n int) error { return c.bools(&h, n) }
		}
		return nil
	case parquet.Encodings.RLE:
		if isBool {
			n, err := textLength(data)
			if err != nil {
				return err
			}
			h := newHybrid(data[4:4+n], 1)
			c.more = func(n int) error { return c.bools(&h, n) }
			return nil
		}
	case parquet.Encodings.DeltaBinaryPacked:
		if c.kind == parquet.Types.Int32 || c.kind == parquet.Types.Int64 {
			d, err := newDeltas(data)
			c.more = func(n int) error { return c.deltas(d, n) }
			return err
		}
	case parquet.Encodings.DeltaLengthByteArray:
		if c.kind == parquet.Types.ByteArray {
			return c.lengths(data)
		}
	case parquet.Encodings.DeltaByteArray:
		if c.kind == parquet.Types.ByteArray || c.kind == parquet.Types.FixedLenByteArray {
			return c.prefixes(data)
		}
	}
	return fmt.Errorf("%w: %v as %v", guard.ErrUnread, c.kind, encoding)
}

// byNumber reads values of the dictionary.
func (c *chunk) byNumber(data []byte) error {
	if c.dict.count < 0 {
		return errors.New("numbers of a dictionary, which is not there")
	}
	h := hybrid{data: data[1:], width: int(data[0]), most: uint32(max(c.dict.count-1, 0))}
	if h.width > 32 {
		return fmt.Errorf("numbers of %d bits", h.width)
	}
	c.more = func(n int) error {
		if n > 0 && c.dict.count == 0 {
			return errors.New("numbers of an empty dictionary")
		}
		to := room(&c.indices, int64(n))
		if err := take(&h, to); err != nil {
			return fmt.Errorf("numbers of the dictionary: %w", err)
		}
		c.look(to)
		return nil
	}
	return nil
}

// look appends the values that numbers of the dictionary, which are checked, stand for.
func (c *chunk) look(numbers []uint32) {
	size, from := c.size, len(c.raw)
	if size == 0 {
		for _, k := range numbers {
			text := c.dict.data[c.dict.at[k]:]
			c.found = append(c.found, text[4:4+binary.LittleEndian.Uint32(text)])
		}
		return
	}
	c.raw = slices.Grow(c.raw, size*len(numbers))[:from+size*len(numbers)]
	to := c.raw[from:]
	if size == 8 {
		for i, k := range numbers {
			copy(to[8*i:8*i+8], c.dict.data[8*int(k):8*int(k)+8])
		}
		return
	}
	for i, k := range numbers {
		copy(to[size*i:size*i+size], c.dict.data[size*int(k):])
	}
}

// plain reads values that lie one behind the other.
func (c *chunk) plain(data *[]byte, n int) error {
	if c.size > 0 {
		if n > len(*data)/c.size {
			return errFewBytes
		}
		c.raw, *data = append(c.raw, (*data)[:n*c.size]...), (*data)[n*c.size:]
		return nil
	}
	for range n {
		size, err := textLength(*data)
		if err != nil {
			return err
		}
		c.found, *data = append(c.found, (*data)[4:4+size]), (*data)[4+size:]
	}
	return nil
}

func (c *chunk) bools(h *hybrid, n int) error {
	from := len(c.raw)
	c.raw = append(c.raw, make([]byte, n)...)
	return take(h, c.raw[from:])
}

func (c *chunk) deltas(d *deltas, n int) error {
	for range n {
		v, err := d.next()
		if err != nil {
			return err
		}
		if c.raw = binary.LittleEndian.AppendUint64(c.raw, uint64(v)); c.size == 4 {
			c.raw = c.raw[:len(c.raw)-4]
		}
	}
	return nil
}

// deltasBefore returns the numbers that data begins with, and what lies behind all of them.
func deltasBefore(data []byte) (d *deltas, rest []byte, err error) {
	if d, err = newDeltas(data); err == nil {
		rest, err = d.end()
	}
	return d, rest, err
}

// lengths reads texts that lie behind all of their lengths.
func (c *chunk) lengths(data []byte) error {
	lengths, data, err := deltasBefore(data)
	if err != nil {
		return err
	}
	c.more = func(n int) error {
		for range n {
			size, err := lengths.length(len(data))
			if err != nil {
				return err
			}
			c.found, data = append(c.found, data[:size]), data[size:]
		}
		return nil
	}
	return nil
}

// prefixes reads texts of which each begins as the one before, as far as a length says.
func (c *chunk) prefixes(data []byte) error {
	prefixes, data, err := deltasBefore(data)
	if err != nil {
		return err
	}
	lengths, data, err := deltasBefore(data)
	if err != nil {
		return err
	}
	c.more = func(n int) error {
		for range n {
			same, err := prefixes.length(len(c.last))
			if err != nil {
				return err
			}
			size, err := lengths.length(len(data))
			if err != nil {
				return err
			}
			text := c.make(same + size)
			copy(text[copy(text, c.last[:same]):], data[:size])
			if data, c.last = data[size:], text; c.size == 0 {
				c.found = append(c.found, text)
			} else if c.raw = append(c.raw, text...); len(text) != c.size {
				return fmt.Errorf("a value of %d bytes, not %d", len(text), c.size)
			}
		}
		return nil
	}
	return nil
}
