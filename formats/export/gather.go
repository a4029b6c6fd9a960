package export

import (
	"encoding/binary"
	"io"

	"github.com/khop-gnn/khop/formats/internal/parquetrows"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// rows gathers rows for a table, and hands many on at a time.
type rows struct {
	put   func(data [][]byte) error
	batch int64
	width []int64 // bytes of a row of each column
	data  [][]byte
	n     int64
}

// gather hands rows of columns on, most rows in all and batch at a time, which fill gives one by one.
func (j *job) gather(columns []graph.Column, batch, most int64, put func(data [][]byte) error,
	fill func(*rows) error) error {
	r, held := &rows{put: put, batch: batch, data: make([][]byte, len(columns))}, int64(0)
	for i := range columns {
		r.width = append(r.width, columns[i].RowBytes())
		held += min(batch, most) * r.width[i]
	}
	if err := j.opt.Memory.Take(pinned.Scratch, held); err != nil {
		return err
	}
	defer j.opt.Memory.Give(pinned.Scratch, held)
	for i := range r.data {
		r.data[i] = make([]byte, 0, min(batch, most)*r.width[i])
	}
	if err := fill(r); err != nil {
		return err
	}
	if r.n > 0 {
		return r.flush()
	}
	return nil
}

// gathered writes a Parquet table of most rows, which fill gives one by one.
func (j *job) gathered(w io.Writer, fields []parquetrows.Field, most int64, fill func(*rows) error) error {
	out, err := newTable(w, fields)
	if err != nil {
		return err
	}
	var columns []graph.Column
	for _, f := range fields {
		columns = append(columns, f.Column)
	}
	if err := j.gather(columns, out.Rows, most, out.Put, fill); err != nil {
		return err
	}
	return out.Close()
}

// number puts a whole number into the row.
func (r *rows) number(column int, v int64) {
	r.data[column] = binary.LittleEndian.AppendUint64(r.data[column], uint64(v))
}

// copy puts a row of an array into the row.
func (r *rows) copy(column int, from unified.Tensor, at int64) {
	r.data[column] = append(r.data[column], from.Bytes()[at*r.width[column]:][:r.width[column]]...)
}

// next ends the row.
func (r *rows) next() error {
	if r.n++; r.n < r.batch {
		return nil
	}
	return r.flush()
}

func (r *rows) flush() error {
	err := r.put(r.data)
	for i := range r.data {
		r.data[i] = r.data[i][:0]
	}
	r.n = 0
	return err
}
