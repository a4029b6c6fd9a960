package tables

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// csvFile is a text with a row a line. What its columns hold is found out from all rows.
type csvFile struct {
	at     source.Place
	budget *source.Budget
	format Format
	nulls  map[string]bool // cells that stand for missing values
	list   []field
	count  int64
}

// guessed is what the cells of a column are so far.
type guessed struct {
	cells, ints, bools, floats, lists, dates int64
	width                                    int64 // of lists; -1: they differ
	numbers                                  int64 // whole numbers among all cells
	odd                                      oddCell
	numeric                                  int64   // numbers among all cells
	word                                     oddCell // the first cell that is no number
	nulls                                    int64   // cells that programs write for missing values; not among cells
	null                                     oddCell // the first of them
	gaps                                     bool    // values are missing
	wide                                     bool    // an integer above 2^53, which a float does not hold
}

// each calls take for each row. cells are valid until the next.
func (f *csvFile) each(ctx context.Context, take func(line int64, cells []string) error) error {
	in, err := f.at.OpenText()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := in.Count(f.budget.Ledger()); err != nil {
		return err
	}
	paced := source.NewPaced(ctx, in)
	r := csv.NewReader(paced)
	r.ReuseRecord, r.LazyQuotes, r.FieldsPerRecord = true, true, -1
	if r.Comma, err = f.comma(); err != nil {
		return err
	}
	header := len(f.format.Header) == 0
	for n := int64(0); ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		paced.Next()
		line, _ := r.FieldPos(0)
		if header {
			if header = false; f.list == nil {
				for _, name := range cells {
					if !utf8.ValidString(name) {
						return source.Error(f.at.Path(), "", int64(line), "",
							fmt.Errorf("the name %q is %w", name, graph.ErrText))
					}
					f.list = append(f.list, field{name: strings.TrimSpace(strings.Clone(name)), width: 1})
				}
			}
			continue
		}
		if len(cells) != len(f.list) {
			return source.Error(f.at.Path(), "", int64(line), "each row has a cell a column",
				fmt.Errorf("the row has %s, and there are %d columns",
					source.Counted(int64(len(cells)), "cell", "cells"), len(f.list)))
		}
		if err := take(int64(line), cells); err != nil {
			return err
		}
	}
}

// comma returns what lies between cells: what the first line has most of.
func (f *csvFile) comma() (rune, error) {
	switch f.format.Delimiter {
	case "":
	case "tab", "\\t":
		return '\t', nil
	default:
		c := []rune(f.format.Delimiter)
		if len(c) != 1 || strings.ContainsRune("\r\n\"", c[0]) {
			return 0, fmt.Errorf("the delimiter %.20q is not one character", f.format.Delimiter)
		}
		return c[0], nil
	}
	head, err := f.at.Head()
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	best := byte(',')
	for _, c := range []byte("\t;|") {
		if bytes.Count(line, []byte{c}) > bytes.Count(line, []byte{best}) {
			best = c
		}
	}
	return rune(best), nil
}

// describe goes over the file: names of columns, what their cells are, and how many rows there are.
func (f *csvFile) describe(ctx context.Context) error {
	for _, name := range f.format.Header {
		f.list = append(f.list, field{name: name, width: 1})
	}
	var all []guessed
	err := f.each(ctx, func(line int64, cells []string) error {
		if all == nil {
			all = make([]guessed, len(cells))
		}
		f.count++
		for i, c := range cells {
			if c = strings.TrimSpace(c); f.missing(c) {
				all[i].gaps = true
				continue
			}
			all[i].look(c, line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(f.list) > maxFields {
		return fmt.Errorf("%w: %d columns", ErrFormat, len(f.list))
	}
	for i := range f.list {
		if all != nil {
			all[i].settle(&f.list[i])
		} else {
			f.list[i].dtype = unified.Int64
		}
	}
	return nil
}

// missing reports whether a cell without spaces around it stands for a missing value.
func (f *csvFile) missing(cell string) bool { return cell == "" || f.nulls[cell] }

// set keeps the first cell.
func (c *oddCell) set(cell string, line int64) {
	if c.cell == "" {
		*c = oddCell{strings.Clone(cell), line}
	}
}

// look takes a cell into account that is not missing.
func (g *guessed) look(cell string, line int64) {
	if source.IsNull(cell) { // a column is text for it, and nothing else
		g.nulls++
		g.null.set(cell, line)
		g.odd.set(cell, line)
		return
	}
	g.cells++
	v, err := strconv.ParseInt(cell, 10, 64)
	if err == nil {
		if g.numbers++; g.ints == g.cells-1 {
			g.ints++
			g.floats++
			g.numeric++
			g.wide = g.wide || v > 1<<53 || v < -1<<53
			return
		}
	} else {
		g.odd.set(cell, line)
	}
	if isNumber(cell) {
		if g.numeric++; g.floats == g.cells-1 {
			g.floats++
			return
		}
	} else {
		g.word.set(cell, line)
	}
	if g.dates == g.cells-1 {
		if _, ok := parseTime(cell); ok {
			g.dates++
			return
		}
	}
	if g.bools == g.cells-1 && isBool(cell) {
		g.bools++
		return
	}
	if g.lists == g.cells-1 && g.width >= 0 {
		n, err := eachNumber(cell, func(float64) {})
		if err == nil && (g.lists == 0 || n == g.width) {
			g.lists++
			g.width = n
			return
		}
		g.width = -1
	}
}

func isNumber(cell string) bool {
	if !strings.ContainsRune("0123456789+-.iInN", rune(cell[0])) {
		return false // at once
	}
	_, err := strconv.ParseFloat(cell, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

func isBool(cell string) bool {
	return cell == "True" || cell == "False" || cell == "true" || cell == "false"
}

// eachNumber calls take for the numbers of a cell, which commas or spaces divide, perhaps in brackets.
func eachNumber(cell string, take func(float64)) (n int64, err error) {
	cell = strings.TrimSpace(cell)
	if strings.HasPrefix(cell, "[") && strings.HasSuffix(cell, "]") {
		cell = cell[1 : len(cell)-1]
	}
	for part := range strings.FieldsFuncSeq(cell, func(r rune) bool { return strings.ContainsRune(", ;\t", r) }) {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, err
		}
		take(x)
		n++
	}
	return n, nil
}

// settle says what a column is. One that is numbers, or dates, but for some cells is text, with a doubt.
func (g *guessed) settle(f *field) {
	if g.kind(f); g.nulls > 0 {
		plain := !f.text || f.unit != ""
		if *f = (field{name: f.name, text: true, width: 1}); plain && g.cells > 0 {
			f.doubt = &doubt{g.nulls, g.cells + g.nulls, g.null}
		}
	}
	if others := g.cells - g.numeric; f.text && f.unit == "" && others > 0 && g.numeric >= others && f.doubt == nil {
		if g.word.cell == "" || g.nulls > 0 && g.null.line < g.word.line {
			g.word = g.null
		}
		f.doubt = &doubt{others + g.nulls, g.cells + g.nulls, g.word}
	}
	if f.text && f.unit == "" && g.numbers > 9*(g.cells+g.nulls)/10 {
		f.odd = g.odd
	}
	f.gaps = g.gaps && !f.text && !f.dtype.IsFloat() && !g.wide
}

// kind says what a column would be without cells that programs write for missing values.
func (g *guessed) kind(f *field) {
	switch {
	case g.ints == g.cells:
		f.dtype = unified.Int64
	case g.bools == g.cells:
		f.dtype, f.boolean = unified.Uint8, true
	case g.floats == g.cells && g.wide:
		f.text = true // neither type holds all of its numbers
	case g.floats == g.cells:
		f.dtype = unified.Float64
	case g.lists == g.cells && g.width > 0:
		f.dtype, f.list, f.width = unified.Float32, true, g.width
	case g.dates == g.cells:
		f.text, f.unit = true, "us"
	default:
		f.text = true
	}
}

func (f *csvFile) fields() []field { return f.list }
func (f *csvFile) rows() int64     { return f.count }

// scan implements table.
func (f *csvFile) scan(ctx context.Context, want []int, yield func(*batch) error) error {
	width := int64(0)
	for _, w := range want {
		width += f.list[w].rowBytes() + 40
	}
	step, b := int(rowsOf(width)), &batch{path: f.at.Path(), columns: make([]vector, len(want)), lines: []int64{}}
	flush := func() error {
		if b.rows == 0 {
			return nil
		}
		err := yield(b)
		for i := range b.columns {
			b.columns[i] = vector{data: b.columns[i].data[:0], texts: b.columns[i].texts[:0]}
		}
		b.rows, b.lines = 0, b.lines[:0]
		return err
	}
	err := f.each(ctx, func(line int64, cells []string) error {
		for i, w := range want {
			if err := b.columns[i].addCell(f, &f.list[w], cells[w], b.rows); err != nil {
				return &columnError{f.list[w].name, line, err}
			}
		}
		b.lines = append(b.lines, line)
		if b.rows++; b.rows >= step {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// addCell appends a cell, as row number row of the batch.
func (v *vector) addCell(in *csvFile, f *field, cell string, row int) error {
	trimmed := strings.TrimSpace(cell)
	missing := in.missing(trimmed)
	if missing && v.valid == nil {
		v.valid = make([]bool, row, row+1)
		for i := range v.valid {
			v.valid[i] = true
		}
	}
	if v.valid != nil {
		v.valid = append(v.valid, !missing)
	}
	switch {
	case f.text && missing && trimmed != "":
		v.texts = append(v.texts, nil)
	case f.text:
		v.texts = append(v.texts, []byte(cell))
	case missing:
		for range f.width {
			v.data = append(v.data, make([]byte, f.dtype.Size())...)
			f.dtype.Put(v.data[int64(len(v.data))-f.dtype.Size():], math.NaN())
		}
	case f.list:
		n, err := eachNumber(cell, func(x float64) {
			v.data = binary.LittleEndian.AppendUint32(v.data, math.Float32bits(float32(x)))
		})
		if err != nil || n != f.width {
			return fmt.Errorf("%.40q: %d numbers are wanted", cell, f.width)
		}
	case f.dtype == unified.Uint8:
		v.data = append(v.data, 0)
		if strings.EqualFold(trimmed, "true") {
			v.data[len(v.data)-1] = 1
		}
	case f.dtype == unified.Int64:
		x, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil {
			return fmt.Errorf("%.40q is not a number, but it was", trimmed)
		}
		v.data = binary.LittleEndian.AppendUint64(v.data, uint64(x))
	default:
		x, err := strconv.ParseFloat(trimmed, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%.40q is not a number, but it was", trimmed)
		}
		v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(x))
	}
	return nil
}
