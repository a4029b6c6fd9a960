package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
)

// The encodings of texts that are read, beside UTF-8.
const (
	latin1 = "latin-1"
	cp1252 = "windows-1252"
	utf16  = "utf-16"
)

// decoderOf returns what makes UTF-8 of a text that begins so; nil where it is UTF-8 already, as its mark says.
func decoderOf(name string, head []byte) transform.Transformer {
	switch {
	case bytes.HasPrefix(head, []byte(mark)):
	case name == latin1:
		return decoder(charmap.ISO8859_1)
	case name == cp1252:
		return decoder(charmap.Windows1252)
	case name == utf16 && Wide(head):
		order := unicode.LittleEndian
		if head[0] == 0 {
			order = unicode.BigEndian
		}
		return decoder(unicode.UTF16(order, unicode.UseBOM))
	}
	return nil
}

func decoder(e encoding.Encoding) transform.Transformer { return &strict{e.NewDecoder(), 0} }

// strict is a decoder that refuses what its encoding does not have, which others replace by U+FFFD.
type strict struct {
	transform.Transformer
	at int64 // bytes of the text before what is next
}

// Transform implements transform.Transformer.
func (s *strict) Transform(dst, src []byte, atEOF bool) (nDst, nSrc int, err error) {
	nDst, nSrc, err = s.Transformer.Transform(dst, src, atEOF)
	if wrong := bytes.Index(dst[:nDst], []byte("\ufffd")); wrong >= 0 {
		if s.at == 0 {
			s.Reset() // a mark of the order of bytes comes again
		}
		_, nSrc, _ = s.Transformer.Transform(make([]byte, wrong), src, atEOF)
		return 0, 0, option.Textf("byte %s of the text is not in the encoding that %s names",
			humanize.Comma(s.at+int64(nSrc)), option.Named("Encoding"))
	}
	s.at += int64(nSrc)
	return nDst, nSrc, err
}

// SetEncoding says what the texts of the source are in: "latin-1", "windows-1252", "utf-16", or "" for UTF-8. A text
// that says by a byte order mark that it is UTF-8 is read as that.
func (t *Tree) SetEncoding(name string) { t.encoding = name }

// Encoded reports whether texts may be in another encoding than UTF-8.
func (t *Tree) Encoded() bool { return t.encoding != "" }

// ExplainText adds to an error about what is not UTF-8 where in its file that begins, which encoding the file looks
// like, and how it is read. Other errors stay as they are.
func (t *Tree) ExplainText(err error) error {
	if t.encoding != "" || !errors.Is(err, graph.ErrText) && !errors.Is(err, ErrUnknown) {
		return err
	}
	at := &formats.Error{Row: -1, Err: err}
	_ = errors.As(err, &at)
	places := make([]Place, 0, len(t.names)+1)
	for _, name := range t.names {
		places = append(places, t.At(name))
	}
	for _, place := range append(places, Local(at.Path)) { // a mapping names files elsewhere
		if at.Path != "" && at.Path != place.Path() && at.Path != t.Path {
			continue
		}
		offset, sample := place.notText()
		if offset < 0 || errors.Is(err, ErrUnknown) && !Wide(sample) {
			continue
		}
		looks := looksLike(sample)
		return Error(place.Path(), at.Column, cmp.Or(at.Row, -1),
			option.Textf("read it by %s %s, or convert it to UTF-8 first", option.Named("Encoding"), looks),
			fmt.Errorf("%w; byte %s of the file is the first that is not UTF-8: it looks like %s", at.Err,
				humanize.Comma(offset), looks))
	}
	return err
}

// looksLike guesses the encoding of a text that is not UTF-8.
func looksLike(sample []byte) string {
	switch {
	case Wide(sample):
		return utf16
	case slices.ContainsFunc(sample, func(b byte) bool { return b >= 0x80 && b < 0xa0 }):
		return cp1252
	}
	return latin1
}

// notText returns where a text has its first byte that is not UTF-8, or -1, and some bytes from there on.
func (p Place) notText() (at int64, sample []byte) {
	f, err := p.Open()
	if err != nil {
		return -1, nil
	}
	defer f.Close()
	buf, kept := make([]byte, min(max(f.Size, 64), 1<<16)), 0 // an archive may have many that are small
	for {
		n, err := io.ReadFull(f, buf[kept:])
		b := buf[:kept+n]
		if at == 0 && (Wide(b) || bytes.IndexByte(b, 0) >= 0) { // not a text, unless of wide signs
			if !Wide(b) {
				return -1, nil
			}
			return 0, b
		}
		i := paths.NotText(b)
		if len(b)-i >= utf8.UTFMax || err != nil && i < len(b) {
			return at + int64(i), b[i:]
		}
		if err != nil {
			return -1, nil
		}
		at, kept = at+int64(i), copy(buf, b[i:])
	}
}
