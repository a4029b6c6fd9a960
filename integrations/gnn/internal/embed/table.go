package embed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Table is a matrix with a row for each node of a type: a column, or what a step makes.
type Table struct {
	Name  string
	Rows  int64
	Width int
	DType unified.DType // float32, floats of 16 bits, or int8 with Scale

	// Row is the bytes of a row, and Decode reads its numbers, where rows are coded; DType is of no matter then.
	Row    int64
	Decode func(to []float32, row []byte)

	Scale     []float32 // that the elements of a row are multiplied by; nil: none
	Normalise bool      // rows are divided by their sum, where that is not 0

	bytes  []byte         // of all rows
	region *pinned.Region // that bytes are of, where a step makes them
	file   *os.File       // that a step writes; nil: it is in memory, or a column
	near   bool           // bytes are in memory
	room   []byte         // that bytes begin, of a table that grows
	free   func() error   // gives room back
	held   bool           // they will be, as is planned
}

// Column is the table of a column that is there.
func Column(name string, t unified.Tensor) *Table {
	return &Table{Name: name, Rows: t.Len(), Width: int(t.Width()), DType: t.DType(), bytes: t.Bytes()}
}

// rowBytes returns the bytes of a row.
func (t *Table) rowBytes() int64 {
	if t.Decode != nil {
		return t.Row
	}
	return int64(t.Width) * t.DType.Size()
}

// rowBytes returns the bytes of a row in all of some tables.
func rowBytes(tables []*Table) (bytes int64) {
	for _, t := range tables {
		bytes += t.rowBytes()
	}
	return bytes
}

// size returns the bytes of all rows.
func (t *Table) size() int64 { return t.Rows * t.rowBytes() }

// plain reports whether rows are float32 as they are read.
func (t *Table) plain() bool { return t.DType == unified.Float32 && t.Decode == nil && !t.Normalise }

// operand reports whether package sparse reads rows as they lie in the table.
func (t *Table) operand() bool {
	return t.plain() || t.DType.IsHalf() && t.Decode == nil && !t.Normalise
}

// widen writes rows from first on, as they lie in the table, as float32.
func (t *Table) widen(to []float32, raw []byte, first int64) {
	if t.Decode != nil {
		for i := range len(to) / t.Width {
			t.Decode(to[i*t.Width:(i+1)*t.Width], raw[int64(i)*t.Row:int64(i+1)*t.Row])
		}
	} else if t.DType == unified.Int8 {
		for i, v := range unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(raw))), len(raw)) {
			to[i] = float32(v) * t.Scale[first+int64(i/t.Width)]
		}
	} else {
		t.DType.Floats(to, raw)
	}
	if t.Normalise {
		Normalise(to, t.Width)
	}
}

// Normalise divides rows by their sums, where these are not 0.
func Normalise(rows []float32, width int) {
	for i := 0; i < len(rows); i += width {
		row, sum := rows[i:i+width], float32(0)
		for _, v := range row {
			sum += v
		}
		if sum != 0 {
			for k := range row {
				row[k] /= sum
			}
		}
	}
}

// Floats returns all rows of a column as float32: in its own memory, where they lie there so.
func (t *Table) Floats() []float32 {
	if t.plain() {
		return floats(t.bytes)
	}
	to := make([]float32, t.Rows*int64(t.Width))
	t.widen(to, t.bytes, 0)
	return to
}

// rows returns rows lo to hi of a table whose bytes are at hand, as they lie there.
func (t *Table) rows(lo, hi int64) []byte { return t.bytes[lo*t.rowBytes() : hi*t.rowBytes()] }

// hold gives a table memory for all of its rows.
func (t *Table) hold(memory pinned.Options) (err error) {
	if t.region, err = pinned.Allocate(max(t.size(), 1), memory); err != nil {
		return err
	}
	t.bytes, t.near = t.region.Bytes()[:t.size()], true
	return nil
}

// grow gives a table another number of rows, and keeps those that stay. With more it may move, to memory that take
// gives; it has room for an eighth more then.
func (t *Table) grow(rows int64, take takeMemory) error {
	if size := rows * t.rowBytes(); t.free == nil || size > int64(len(t.room)) {
		room, free, err := take(max(size+size/growth, 1))
		if err != nil {
			return err
		}
		copy(room, t.bytes)
		old := t.free
		if t.room, t.free = room, free; old != nil {
			if err := old(); err != nil {
				return err
			}
		}
	}
	t.resize(rows)
	return nil
}

// resize gives a table a number of rows that it has room for.
func (t *Table) resize(rows int64) { t.Rows, t.bytes, t.near = rows, t.room[:rows*t.rowBytes()], true }

// takeMemory takes n bytes, which are zero, until free is called.
type takeMemory func(n int64) (b []byte, free func() error, err error)

// growth is which part of a table is room for rows to come: one in so many.
const growth = 8

// create gives a table a file, which keeps what it holds.
func (t *Table) create(path string) (err error) {
	if t.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	if err := t.file.Truncate(max(t.size(), 1)); err != nil {
		return errors.Join(writeError(path, err), t.close())
	}
	if t.region, err = pinned.Map(t.file); err != nil {
		return errors.Join(err, t.close())
	}
	t.bytes = t.region.Bytes()[:t.size()]
	return nil
}

// write writes rows from first on, which lie as in the table.
func (t *Table) write(raw []byte, first int64) error {
	if t.file == nil {
		copy(t.rows(first, first+int64(len(raw))/t.rowBytes()), raw)
		return nil
	}
	_, err := direct.WriteAt(t.file, raw, first*t.rowBytes())
	if err != nil {
		return writeError(t.file.Name(), err)
	}
	return nil
}

// close frees what a step's table holds. Its file stays.
func (t *Table) close() (err error) {
	if t.region != nil {
		err = t.region.Close()
	}
	if t.free != nil {
		err = errors.Join(err, t.free())
	}
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	t.bytes, t.region, t.file, t.near, t.room, t.free = nil, nil, nil, false, nil, nil
	return err
}

// writeError names the remedy of a file that could not be written.
func writeError(path string, err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%w; make room on its disk, and run the same again: what is finished is kept",
		&fs.PathError{Op: "write", Path: path, Err: err})
}

// floats views bytes as float32.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// matrix views rows of float32 as a tensor.
func matrix(x []float32, width int) unified.Tensor {
	t, _ := unified.FromRows(x, int64(width))
	return t
}
