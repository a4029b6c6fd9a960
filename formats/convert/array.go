package convert

import (
	"encoding/binary"

	"github.com/khop-gnn/khop/formats"
)

// array gathers elements for a column writer. The first error stays.
type array struct {
	w     *formats.ColumnWriter
	buf   []byte
	err   error
	from  []byte // of a column: its rows in the order of the source
	width int64
}

const arrayBuffer = 1 << 18

func newArray(w *formats.ColumnWriter, err error) (*array, error) {
	if err != nil {
		return nil, err
	}
	return &array{w: w, buf: make([]byte, 0, arrayBuffer)}, nil
}

func (a *array) room(n int) {
	if len(a.buf)+n > arrayBuffer {
		a.flush()
	}
}

// put adds an integer of 4 or 8 bytes.
func (a *array) put(v, width int64) {
	a.room(int(width))
	if width == 4 {
		a.buf = binary.LittleEndian.AppendUint32(a.buf, uint32(v))
	} else {
		a.buf = binary.LittleEndian.AppendUint64(a.buf, uint64(v))
	}
}

func (a *array) putRow(row int64) {
	a.room(int(a.width))
	a.buf = append(a.buf, a.from[row*a.width:(row+1)*a.width]...)
}

func (a *array) flush() {
	if a.err == nil {
		_, a.err = a.w.Write(a.buf)
	}
	a.buf = a.buf[:0]
}

func (a *array) close() error {
	a.flush()
	if a.err != nil {
		return a.err
	}
	return a.w.Close()
}
