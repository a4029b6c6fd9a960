package ogb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/khop-gnn/khop/formats/internal/foreign/lines"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// rows calls take for each line that is not empty, with its number, cut at commas. It stops when ctx is done.
func rows(ctx context.Context, at source.Place, r *source.Request, take func(line int64, f [][]byte) error) error {
	var fields [][]byte
	return lines.Each(ctx, at, r, "", func(line int64, text []byte) error {
		if text = bytes.TrimSpace(text); len(text) == 0 {
			return nil
		}
		fields = fields[:0]
		for {
			head, rest, more := bytes.Cut(text, []byte(","))
			fields = append(fields, bytes.TrimSpace(head))
			if text = rest; !more {
				break
			}
		}
		return take(line, fields)
	})
}

// integer reads a whole number, which may be written as 3.0; nan is -1, as "no label".
func integer(f []byte) (int64, error) {
	if v, err := strconv.ParseInt(string(f), 10, 64); err == nil {
		return v, nil
	}
	x, err := strconv.ParseFloat(string(f), 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%.60q is not a number", f)
	case math.IsNaN(x):
		return -1, nil
	case x != math.Trunc(x) || math.Abs(x) >= 1<<62:
		return 0, fmt.Errorf("%.60q is not a whole number", f)
	}
	return int64(x), nil
}

// floats writes a table of numbers as float32 to a spool, and returns its width and rows.
func floats(ctx context.Context, at source.Place, r *source.Request, to *source.Spool) (width, n int64, err error) {
	var buf []byte
	err = rows(ctx, at, r, func(_ int64, f [][]byte) error {
		if n++; n == 1 {
			width = int64(len(f))
		}
		if int64(len(f)) != width {
			return fmt.Errorf("the row has %d numbers, not %d", len(f), width)
		}
		buf = buf[:0]
		for _, x := range f {
			v, err := strconv.ParseFloat(string(x), 32)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return fmt.Errorf("%.60q is not a number", x)
			}
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(float32(v)))
		}
		_, err := to.Write(buf)
		return err
	})
	return width, n, err
}
