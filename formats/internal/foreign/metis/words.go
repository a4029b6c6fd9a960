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

// next takes a byte. Behind the last one there is the end of a line.
func (w *words) next() (byte, error) {
	c, err := w.r.ReadByte()
	if err == io.EOF {
		w.end, c, err = true, '\n', nil
	}
	w.ended = c == '\n'
	return c, err
}

// begin begins a line. It reports whether there is anything on it, and whether it is a comment, which it skips.
func (w *words) begin() (fields, comment bool, err error) {
	c, err := w.next()
	if err != nil || w.end {
		return false, false, err
	}
	if c == '%' {
		for !w.ended && err == nil {
			_, err = w.next()
		}
		return false, true, err
	}
	w.ended = false
	return c != '\n', false, w.r.UnreadByte()
}

// number reads the next number of the line; ok is false at its end.
func (w *words) number() (v int64, ok bool, err error) {
	for !w.ended {
		c, err := w.next()
		switch {
		case err != nil:
			return 0, false, err
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			if ok {
				return v, true, nil
			}
		case c < '0' || c > '9' || v > 1<<58:
			return 0, false, fmt.Errorf("%q in a number: whole numbers that are not negative are wanted", c)
		default:
			v, ok = 10*v+int64(c-'0'), true
		}
	}
	return v, ok, nil
}

// rest returns the fields of the rest of the line.
func (w *words) rest() ([][]byte, error) {
	var text []byte
	for !w.ended {
		c, err := w.next()
		if err != nil {
			return nil, err
		}
		if text = append(text, c); len(text) > 1<<12 {
			return nil, fmt.Errorf("the header is longer than %d bytes", 1<<12)
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
