package streams

import (
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
)

// sliceBytes is about how much of a record is written as one batch, and sliceRows the most rows of it. They bound what
// a Spool takes beside the record, and what a reader takes of its file.
const (
	sliceBytes = 4 << 20
	sliceRows  = 1 << 16
)

// Spool writes records to an Arrow file. It is one goroutine's at a time; its owner calls Close.
type Spool struct {
	file   *os.File
	w      *ipc.FileWriter
	schema *arrow.Schema // of the file
}

// New begins a new file of records of this schema. Errors name the column whose type is not kept; then there is no
// file.
func New(path string, schema *arrow.Schema) (*Spool, error) {
	var fields []arrow.Field
	for _, f := range schema.Fields() {
		t, err := plainType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("the column %q is %w", f.Name, err)
		}
		f.Type = t
		fields = append(fields, f)
	}
	s := &Spool{schema: arrow.NewSchema(fields, nil)}
	var err error
	if s.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if s.w, err = ipc.NewFileWriter(s.file, ipc.WithSchema(s.schema)); err != nil {
		return nil, errors.Join(err, s.file.Close(), os.Remove(path))
	}
	return s, nil
}

// Put writes the rows of a record, which it does not keep.
func (s *Spool) Put(r arrow.Record) error {
	for lo, step := int64(0), rowsOf(r); lo < r.NumRows(); lo += step {
		if err := s.put(r, lo, min(lo+step, r.NumRows())); err != nil {
			return err
		}
	}
	return nil
}

// put writes rows lo up to hi of a record.
func (s *Spool) put(r arrow.Record, lo, hi int64) error {
	var columns []arrow.Array
	defer func() {
		for _, c := range columns {
			c.Release()
		}
	}()
	for i, c := range r.Columns() {
		rows := array.NewSlice(c, lo, hi)
		made, err := plain(rows, s.schema.Field(i).Type)
		rows.Release()
		if err != nil {
			return fmt.Errorf("the column %q: %w", s.schema.Field(i).Name, err)
		}
		columns = append(columns, made)
	}
	batch := array.NewRecord(s.schema, columns, hi-lo)
	defer batch.Release()
	return s.w.Write(batch)
}

// Close ends the file, which is whole if it returns no error.
func (s *Spool) Close() error { return errors.Join(s.w.Close(), s.file.Close()) }

// rowsOf returns how many rows of a record are written as a batch: a multiple of 8, for bits begin at whole bytes.
func rowsOf(r arrow.Record) int64 {
	width := 1.
	for _, c := range r.Columns() {
		width += widthOf(c)
	}
	return max(8, min(sliceRows, int64(sliceBytes/width))&^7)
}
