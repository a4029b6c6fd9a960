package array_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// blocks hands on a file in pieces of 5 bytes.
type blocks []byte

// From implements array.Blocks.
func (b blocks) From(at int64) ([]byte, error) {
	if at >= int64(len(b)) {
		return nil, io.ErrUnexpectedEOF
	}
	return b[at:min(int64(len(b)), (at/5+1)*5)], nil
}

// look says what every way to read an array gives.
func look(text string) (all []sourcetest.Seen) {
	ledger := sourcetest.Limited(1 << 20)
	each := func(what string, read func(r io.Reader, h array.Header) (any, error)) {
		r := strings.NewReader(text)
		h, err := array.ReadHeader(r)
		if err != nil {
			all = []sourcetest.Seen{{Way: "header", Err: err}}
			return
		}
		v, err := read(r, h)
		all = append(all, sourcetest.Seen{Way: what, Err: err,
			Values: fmt.Sprintf("%v, %d left, %d bytes", v, r.Len(), ledger.Total())})
		ledger.Give(pinned.Sources, ledger.Total())
	}
	each("header", func(_ io.Reader, h array.Header) (any, error) {
		return fmt.Sprintf("%v: %d, %v, %d, %v, %t, %d, %d", &h, h.Kind, h.DType, h.Width, h.Shape, h.Fortran,
			h.Elements(), h.Bytes()), nil
	})
	each("strings", func(r io.Reader, h array.Header) (any, error) {
		v, err := array.ReadStrings(r, h, ledger)
		return fmt.Sprintf("%q", v), err
	})
	each("ints", func(r io.Reader, h array.Header) (any, error) { return array.ReadInts(r, h, ledger) })
	each("stream", func(r io.Reader, h array.Header) (any, error) {
		var b bytes.Buffer
		err := array.Stream(context.Background(), &b, r, h, ledger)
		return fmt.Sprintf("%x", b.Bytes()), err
	})
	each("each", func(r io.Reader, h array.Header) (any, error) {
		v := ""
		err := array.EachInts(r, h, func(block []int64, at int64) error { v += fmt.Sprint(at, block); return nil })
		return v, err
	})
	for _, how := range []string{"reader", "mapped", "blocks"} {
		each(how, func(r io.Reader, h array.Header) (any, error) { return some(text, how, r, h) })
	}
	return all
}

// some reads the elements of a text some at a time.
func some(text, how string, r io.Reader, h array.Header) (any, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var x *array.Reader
	switch how {
	case "reader":
		x, err = array.NewReader(bytes.NewReader(b), h)
	case "mapped":
		x, err = array.NewMapped(b, h)
	default:
		x, err = array.NewBlocks(blocks(text), int64(len(text)-len(b)), h)
	}
	if err != nil {
		return nil, err
	}
	return inTurn(x)
}

// inTurn reads an element as each kind of number in turn, and leaves one out.
func inTurn(x *array.Reader) (string, error) {
	v := ""
	for i := 0; x.Left() > 0; i++ {
		left := x.Left()
		switch i % 4 {
		case 0:
			ints, err := x.Ints(2)
			if err != nil {
				return v, err
			}
			v += fmt.Sprint(ints)
		case 1:
			if err := x.Skip(1); err != nil {
				return v, err
			}
		case 2:
			floats, err := x.Floats(1)
			if err != nil {
				return v, err
			}
			v += fmt.Sprint(floats)
		default:
			b, err := x.Next(3)
			if err != nil {
				return v, err
			}
			v += fmt.Sprintf("%x", b)
		}
		if x.Left() >= left {
			return v, fmt.Errorf("%d elements are left, as before", left)
		}
	}
	b, err := x.Next(1)
	return v + fmt.Sprint(len(b)), err
}

// TestWhatComesOfAnyArray: see sourcetest.Outcomes.
func TestWhatComesOfAnyArray(t *testing.T) {
	file := func(version, descr, order, shape, data string) string {
		h := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape)
		size := string([]byte{byte(len(h)), 0})
		if version != "\x01" {
			size += "\x00\x00"
		}
		return "\x93NUMPY" + version + "\x00" + size + h + data
	}
	of := map[string]string{
		"big-endian": file("\x01", ">i2", "False", "(6,)", "\x00\x01\x00\x02\xff\xff\x00\x04\x00\x05\x00\x06"),
		"columns":    file("\x02", "<i2", "True", "(2, 3)", "\x01\x00\x04\x00\x02\x00\x05\x00\x03\x00\x06\x00"),
		"big columns": file("\x03", ">f4", "True", "(2, 2)",
			"\x3f\x80\x00\x00\x40\x00\x00\x00\x3f\x00\x00\x00\xbf\x80\x00\x00"),
		"text": file("\x01", "<U2", "False", "(2,)",
			"a\x00\x00\x00b\x00\x00\x00\xe9\x00\x00\x00\x00\x00\x00\x00"),
		"bytes":        file("\x01", "|S3", "False", "(2,)", "ab\x00\xff\x00c"),
		"bools":        file("\x01", "|b1", "False", "(5,)", "\x00\x01\x01\x00\x01"),
		"scalar":       file("\x01", "<f8", "False", "()", "\x00\x00\x00\x00\x00\x00\xf8\x3f"),
		"nothing":      file("\x01", "<i8", "False", "(0, 4)", ""),
		"objects":      file("\x01", "|O", "False", "(1,)", "x"),
		"halves":       file("\x01", "<f2", "False", "(2,)", "\x00\x3c\x00\x40"),
		"three":        file("\x01", "|u1", "True", "(2, 3, 2)", "abcdefghijkl"),
		"empty string": file("\x01", "<U0", "False", "(3,)", ""),
	}
	for name, v := range map[string]any{"i1": []int8{-1, 2, 3, 4, 5, 6, 7}, "u2": []uint16{1, 65535, 3},
		"i4": []int32{-5, 6, 7, 8, 9}, "u4": []uint32{1 << 31, 7}, "i8": []int64{-1 << 63, 7, 8},
		"u8": []uint64{1, 1 << 63},
		"f4": []float32{1, -2, 1e30}, "f8": []float64{1, 2.5, -3, 1 << 62, 1 << 63}} {
		of[name] = string(expect.NPY(v))
	}
	sourcetest.Texts(t, of, look)
}
