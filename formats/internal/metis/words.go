package metis

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
)

// words reads the numbers of a text line by line, however long a line is.
type words struct {
	r     *bufio.Reader
	ended bool // the line
	end   bool // the text
}

// begin begins a line. It reports whether there is anything on it, and whether it is a comment, which it skips.
func (w *words) begin() (fields, comment bool, err error) {
	w.ended = false
	c, err := w.peek()
	if err != nil || w.end {
		return false, false, err
	}
	if c == '%' {
		for !w.ended && !w.end && err == nil {
			err = w.skip()
		}
		return false, true, err
	}
	return c != '\n', false, nil
}

func (w *words) peek() (byte, error) {
	b, err := w.r.Peek(1)
	if err == io.EOF {
		w.end, w.ended = true, true
		return '\n', nil
	}
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// skip takes a byte, and sees where the line ends.
func (w *words) skip() error {
	c, err := w.r.ReadByte()
	if err == io.EOF {
		w.end, w.ended = true, true
		return nil
	}
	w.ended = w.ended || c == '\n'
	return err
}

// number reads the next number of the line; ok is false at its end.
func (w *words) number() (v int64, ok bool, err error) {
	for !w.ended {
		c, err := w.peek()
		if err != nil {
			return 0, false, err
		}
		if c == ' ' || c == '\t' || c == '\r' || c == '\n' {
			if err := w.skip(); err != nil {
				return 0, false, err
			}
			if ok {
				return v, true, nil
			}
			continue
		}
		if w.end {
			return v, ok, nil
		}
		if c < '0' || c > '9' || v > 1<<58 {
			return 0, false, fmt.Errorf("%q in a number: whole numbers that are not negative are wanted", c)
		}
		v, ok = 10*v+int64(c-'0'), true
		if _, err := w.r.Discard(1); err != nil {
			return 0, false, err
		}
	}
	return v, ok, nil
}

// rest returns the fields of the rest of the line.
func (w *words) rest() ([][]byte, error) {
	var text []byte
	for !w.ended {
		c, err := w.peek()
		if err != nil {
			return nil, err
		}
		if text = append(text, c); len(text) > 1<<12 {
			return nil, fmt.Errorf("the header is longer than %d bytes", 1<<12)
		}
		if err := w.skip(); err != nil {
			return nil, err
		}
	}
	return bytes.Fields(text), nil
}

// cut returns a column of nodes that is a part of longer rows.
func cut(c graph.Column, rows []byte, from, stride int64) source.Column {
	width := c.RowBytes()
	return source.Column{Column: c, Write: func(ctx context.Context, to io.Writer) error {
		for at := from; at < int64(len(rows)); at += stride {
			if _, err := to.Write(rows[at : at+width]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}}
}
