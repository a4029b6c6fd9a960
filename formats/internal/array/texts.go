package array

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/khop-gnn/khop/graph"
)

// Texts hands on the strings of an array of text or bytes, one after the other, without their padding. It takes twice
// the width of one.
type Texts struct {
	Header
	r    *bufio.Reader
	buf  []byte
	text []byte
}

// maxText is the greatest width of a string that is read.
const maxText = 16 << 20

// NewTexts returns a reader of the strings that r yields behind the header: ErrType where it has others, or strings of
// no width, or wider ones than khop reads.
func NewTexts(r io.Reader, h Header) (*Texts, error) {
	if h.Kind != Text && h.Kind != Bytes || h.Width == 0 || h.Width > maxText {
		return nil, fmt.Errorf("%w %q: strings of 1 to %d bytes are wanted", ErrType, h.Descr, maxText)
	}
	return &Texts{Header: h, r: bufio.NewReaderSize(r, blockBytes)}, nil
}

// Next returns the next string, of which there must be one. graph.ErrText where its bytes are no text.
func (t *Texts) Next() (string, error) {
	if t.buf == nil {
		t.buf = make([]byte, t.Width)
	}
	if _, err := io.ReadFull(t.r, t.buf); err != nil {
		return "", fmt.Errorf("%v: %w", &t.Header, io.ErrUnexpectedEOF)
	}
	if t.bigEndian {
		swap(t.buf, t.Width, t.Kind)
	}
	text := bytes.TrimRight(t.buf, "\x00")
	if t.Kind == Text {
		t.text = appendText(t.text[:0], t.buf)
		if text = t.text; bytes.ContainsRune(text, utf8.RuneError) {
			return "", fmt.Errorf("%.40q is %w", text, graph.ErrText)
		}
	}
	if !utf8.Valid(text) {
		return "", fmt.Errorf("%.40q is %w", text, graph.ErrText)
	}
	return string(text), nil
}

// appendText appends the characters of a string in UTF-32 as UTF-8, without its padding. Invalid ones become U+FFFD.
func appendText(text, e []byte) []byte {
	for ; len(e) >= 4; e = e[4:] {
		c := uint32(e[0]) | uint32(e[1])<<8 | uint32(e[2])<<16 | uint32(e[3])<<24
		text = utf8.AppendRune(text, rune(min(c, utf8.MaxRune+1)))
	}
	return bytes.TrimRight(text, "\x00")
}
