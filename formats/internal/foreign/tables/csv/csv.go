// Package csv reads tables in CSV. What a column holds is found out from all of its cells.
package csv

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

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/guard"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// File is a text with a row a line. What its columns hold is found out from all rows.
type File struct {
	at        source.Place
	budget    *source.Budget
	delimiter string          // "": as the first line tells
	header    []string        // the names of the columns; nil: the first line has them
	nulls     map[string]bool // cells that stand for missing values
	list      []columnar.Field
	count     int64
}

// Open describes a file: delimiter is what lies between cells, "" as the first line tells; header are the names of
// the columns, nil where the first line has them; nulls are cells that stand for missing values.
func Open(ctx context.Context, at source.Place, budget *source.Budget, delimiter string, header []string,
	nulls map[string]bool) (*File, error) {
	f := &File{at: at, budget: budget, delimiter: delimiter, header: header, nulls: nulls}
	return f, f.describe(ctx)
}

// guessed is what the cells of a column are so far.
type guessed struct {
	cells, ints, bools, floats, lists, dates int64
	width                                    int64 // of lists; -1: they differ
	numbers                                  int64 // whole numbers among all cells
	odd                                      columnar.OddCell
	numeric                                  int64            // numbers among all cells
	word                                     columnar.OddCell // the first cell that is no number
	nulls                                    int64            // cells that programs write for missing values: no cells
	null                                     columnar.OddCell // the first of them
	gaps                                     bool             // values are missing
	wide                                     bool             // an integer above 2^53, which a float does not hold
}

// each calls take for each row. cells are valid until the next.
func (f *File) each(ctx context.Context, take func(line int64, cells []string) error) error {
	in, err := source.OpenCounted(f.at.OpenText, f.budget.Ledger())
	if err != nil {
		return err
	}
	defer in.Close()
	paced := source.NewPaced(ctx, in)
	r := csv.NewReader(paced)
	r.ReuseRecord, r.LazyQuotes, r.FieldsPerRecord = true, true, -1
	if r.Comma, err = f.comma(); err != nil {
		return err
	}
	header := len(f.header) == 0
	for n := int64(0); ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		cells, err := r.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", guard.ErrFormat, err)
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
					f.list = append(f.list, columnar.Field{Name: strings.TrimSpace(strings.Clone(name)), Width: 1})
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
func (f *File) comma() (rune, error) {
	switch f.delimiter {
	case "":
	case "tab", "\\t":
		return '\t', nil
	default:
		c := []rune(f.delimiter)
		if len(c) != 1 || strings.ContainsRune("\r\n\"", c[0]) {
			return 0, fmt.Errorf("the delimiter %.20q is not one character", f.delimiter)
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
func (f *File) describe(ctx context.Context) error {
	for _, name := range f.header {
		f.list = append(f.list, columnar.Field{Name: name, Width: 1})
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
	if len(f.list) > columnar.MaxFields {
		return fmt.Errorf("%w: %d columns", guard.ErrFormat, len(f.list))
	}
	for i := range f.list {
		if all != nil {
			all[i].settle(&f.list[i])
		} else {
			f.list[i].DType = unified.Int64
		}
	}
	return nil
}

// missing reports whether a cell without spaces around it stands for a missing value.
func (f *File) missing(cell string) bool { return cell == "" || f.nulls[cell] }

// look takes a cell into account that is not missing.
func (g *guessed) look(cell string, line int64) {
	if source.IsNull(cell) { // a column is text for it, and nothing else
		g.nulls++
		g.null.Set(cell, line)
		g.odd.Set(cell, line)
		return
	}
	g.cells++
	v, err := strconv.ParseInt(cell, 10, 64)
	if err == nil {
		g.wide = g.wide || v > 1<<53 || v < -1<<53
		if g.numbers++; g.ints == g.cells-1 {
			g.ints++
			g.floats++
			g.numeric++
			return
		}
	} else {
		g.odd.Set(cell, line)
	}
	if isNumber(cell) {
		if g.numeric++; g.floats == g.cells-1 {
			g.floats++
			return
		}
	} else {
		g.word.Set(cell, line)
	}
	if g.dates == g.cells-1 {
		if _, ok := columnar.ParseTime(cell); ok {
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
func (g *guessed) settle(f *columnar.Field) {
	if g.kind(f); g.nulls > 0 {
		plain := !f.Text || f.Unit != ""
		if *f = (columnar.Field{Name: f.Name, Text: true, Width: 1}); plain && g.cells > 0 {
			f.Doubt = &columnar.Doubt{Cells: g.nulls, Of: g.cells + g.nulls, First: g.null}
		}
	}
	if others := g.cells - g.numeric; f.Text && f.Unit == "" && others > 0 && g.numeric >= others && f.Doubt == nil {
		if g.word.Cell == "" || g.nulls > 0 && g.null.Line < g.word.Line {
			g.word = g.null
		}
		f.Doubt = &columnar.Doubt{Cells: others + g.nulls, Of: g.cells + g.nulls, First: g.word}
	}
	if f.Text && f.Unit == "" && g.numbers > 9*(g.cells+g.nulls)/10 {
		f.Odd = g.odd
	}
	f.Big, f.Void = g.wide && !f.Text, g.gaps && g.cells+g.nulls == 0
	f.Gaps = g.gaps && !f.Text && !f.DType.IsFloat() && !g.wide
}

// kind says what a column would be without cells that programs write for missing values.
func (g *guessed) kind(f *columnar.Field) {
	switch {
	case g.ints == g.cells:
		f.DType = unified.Int64
	case g.bools == g.cells:
		f.DType, f.Boolean = unified.Uint8, true
	case g.floats == g.cells && g.wide:
		f.Text = true // neither type holds all of its numbers
	case g.floats == g.cells:
		f.DType = unified.Float64
	case g.lists == g.cells && g.width > 0:
		f.DType, f.List, f.Width = unified.Float32, true, g.width
	case g.dates == g.cells:
		f.Text, f.Unit = true, "us"
	default:
		f.Text = true
	}
}

// Fields describes the columns. Who reads the file may change how they are read.
func (f *File) Fields() []columnar.Field { return f.list }

// Rows returns how many rows there are.
func (f *File) Rows() int64 { return f.count }

// Scan yields the rows of some columns, in order, in batches that are valid until the next. It may be called again.
func (f *File) Scan(ctx context.Context, want []int, yield func(*columnar.Batch) error) error {
	width := int64(0)
	for _, w := range want {
		width += f.list[w].RowBytes() + 40
	}
	step := int(columnar.RowsOf(width))
	b := &columnar.Batch{Path: f.at.Path(), Columns: make([]columnar.Vector, len(want)), Lines: []int64{}}
	flush := func() error {
		if b.Rows == 0 {
			return nil
		}
		err := yield(b)
		for i := range b.Columns {
			b.Columns[i] = columnar.Vector{Data: b.Columns[i].Data[:0], Texts: b.Columns[i].Texts[:0]}
		}
		b.Rows, b.Lines = 0, b.Lines[:0]
		return err
	}
	err := f.each(ctx, func(line int64, cells []string) error {
		for i, w := range want {
			if err := f.addCell(&b.Columns[i], &f.list[w], cells[w], b.Rows); err != nil {
				return columnar.InColumn(f.list[w].Name, line, err)
			}
		}
		b.Lines = append(b.Lines, line)
		if b.Rows++; b.Rows >= step {
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
func (in *File) addCell(v *columnar.Vector, f *columnar.Field, cell string, row int) error {
	trimmed := strings.TrimSpace(cell)
	missing := in.missing(trimmed)
	if missing && v.Valid == nil {
		v.Valid = make([]bool, row, row+1)
		for i := range v.Valid {
			v.Valid[i] = true
		}
	}
	if v.Valid != nil {
		v.Valid = append(v.Valid, !missing)
	}
	switch {
	case f.Text && missing && trimmed != "":
		v.Texts = append(v.Texts, nil)
	case f.Text:
		v.Texts = append(v.Texts, []byte(cell))
	case missing:
		for range f.Width {
			v.Data = append(v.Data, make([]byte, f.DType.Size())...)
			f.DType.Put(v.Data[int64(len(v.Data))-f.DType.Size():], math.NaN())
		}
	case f.List:
		n, err := eachNumber(cell, func(x float64) {
			v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(float32(x)))
		})
		if err != nil || n != f.Width {
			return fmt.Errorf("%.40q: %d numbers are wanted", cell, f.Width)
		}
	default:
		var number [8]byte
		if err := parse(f, trimmed, number[:]); err != nil {
			return err
		}
		v.Data = append(v.Data, number[:f.DType.Size()]...)
	}
	return nil
}

// parse puts the number that a cell is.
func parse(f *columnar.Field, cell string, to []byte) error {
	switch {
	case f.Boolean:
		x, err := strconv.ParseBool(cell)
		if err != nil {
			return fmt.Errorf("%.40q is not true or false", cell)
		}
		if x {
			to[0] = 1
		}
	case !f.DType.IsFloat():
		x, err := strconv.ParseInt(cell, 10, int(8*f.DType.Size()))
		if errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%.40q is beyond %v", cell, f.DType)
		} else if err != nil {
			return fmt.Errorf("%.40q is not a whole number", cell)
		}
		binary.LittleEndian.PutUint64(to, uint64(x))
	default:
		x, err := strconv.ParseFloat(cell, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%.40q is not a number", cell)
		}
		f.DType.Put(to, x)
	}
	return nil
}

// Declare gives a column its type; with Gaps numbers may be missing. Of times the cells tell whether they are texts or
// whole numbers; lists are read as float32, or cannot be stored.
func (f *File) Declare(column int, given columnar.Field) {
	is := &f.list[column]
	switch {
	case given.List && (!is.List || given.Text || given.DType != unified.Float32):
		is.Bad = "lists in CSV, but those of float of one length"
	case given.List:
	case given.Unit != "" && is.Text:
		*is = columnar.Field{Name: is.Name, Text: true, Width: 1, Unit: "us"}
	case f.count > 0 || given.Unit == "":
		given.Name, given.Width = is.Name, 1
		given.Gaps = given.Gaps && is.Gaps && !given.Text && !given.DType.IsFloat()
		*is = given
	}
}
