package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
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

// OpenText opens a file as Open does and makes its text plain: a line ends in LF or CR LF, since a CR alone is read as
// LF, and a byte order mark at the beginning is left out. Text in UTF-16 or UTF-32 is refused, and so is a mark further
// on, with its line: it would be part of a name or a number that nobody sees.
func OpenText(path string) (*File, error) { return Local(path).OpenText() }

// plain makes the text plain, which is in an encoding that Tree.SetEncoding takes. It closes the file where that cannot
// be.
func (f *File) plain(encoding string) error {
	b, ok := f.Reader.(*bufio.Reader)
	if !ok {
		b = bufio.NewReaderSize(f.Reader, 1<<16)
	}
	head, _ := b.Peek(4)
	if d := decoderOf(encoding, head); d != nil {
		b = bufio.NewReaderSize(transform.NewReader(b, d), 1<<16)
		head, _ = b.Peek(len(mark))
	}
	if Wide(head) {
		return errors.Join(Error(f.Path, "", -1, "convert it to UTF-8 first, as by iconv -f UTF-16 -t UTF-8",
			fmt.Errorf("is text in UTF-16 or UTF-32, %w", graph.ErrText)), f.Close())
	}
	if bytes.HasPrefix(head, []byte(mark)) {
		_, _ = b.Discard(len(mark))
		f.mark = int64(len(mark))
	}
	f.Reader = &text{path: f.Path, r: b}
	return nil
}

// mark is the byte order mark in UTF-8.
const mark = "\xef\xbb\xbf"

// Wide reports whether a file's first bytes are the byte order mark of UTF-16 or UTF-32, or two signs of ASCII in
// UTF-16.
func Wide(head []byte) bool {
	if len(head) >= 4 && (head[0] == 0) != (head[1] == 0) {
		zero := 0
		if head[1] == 0 {
			zero = 1
		}
		if head[zero+2] == 0 && printable(head[1-zero]) && printable(head[3-zero]) {
			return true
		}
	}
	return slices.ContainsFunc([]string{"\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"}, func(mark string) bool {
		return bytes.HasPrefix(head, []byte(mark))
	})
}

func printable(b byte) bool { return b >= ' ' && b < 0x7f || b == '\t' || b == '\n' || b == '\r' }

// text reads plain text of any text.
type text struct {
	path  string
	r     *bufio.Reader
	lines int64 // that have ended
	err   error // for good
}

func (t *text) Read(p []byte) (int, error) {
	if t.err != nil || len(p) == 0 {
		return 0, t.err
	}
	n, err := t.r.Read(p)
	b := t.endLines(p[:n])
	if at := t.findMark(b); at >= 0 {
		b = b[:at]
		t.err = Error(t.path, "", t.lines+int64(bytes.Count(b, []byte{'\n'}))+1,
			"remove it: files that were joined have one where the next begins",
			errors.New("a byte order mark (U+FEFF) within the text"))
		err = t.err
	}
	t.lines += int64(bytes.Count(b, []byte{'\n'}))
	return len(b), err
}

// endLines makes each CR that no LF follows a LF.
func (t *text) endLines(b []byte) []byte {
	for i := 0; ; i++ {
		at := bytes.IndexByte(b[i:], '\r')
		if at < 0 {
			return b
		}
		i += at
		next := b[i+1:]
		if len(next) == 0 {
			next, _ = t.r.Peek(1)
		}
		if len(next) == 0 || next[0] != '\n' {
			b[i] = '\n'
		}
	}
}

// findMark returns where a byte order mark begins; -1 for nowhere. The last one may end in what is read next.
func (t *text) findMark(b []byte) int {
	if at := bytes.Index(b, []byte(mark)); at >= 0 {
		return at
	}
	for k := min(len(b), len(mark)-1); k > 0; k-- {
		if rest := mark[k:]; bytes.HasSuffix(b, []byte(mark[:k])) {
			if next, _ := t.r.Peek(len(rest)); string(next) == rest {
				return len(b) - k
			}
		}
	}
	return -1
}

var _ io.Reader = (*text)(nil)

// IsNull reports whether a cell is what programs write for a missing value. It is missing only if a person says so.
// Every cell of a CSV is compared, which a switch does by its length and a few bytes.
func IsNull(cell string) bool {
	switch cell {
	case `\N`, "NULL", "null", "Null", "NA", "N/A", "n/a", "#N/A", "<NA>", "None", "nil", "-", "?", ".":
		return true
	}
	return false
}

// NullSet returns the set of some cells.
func NullSet(list []string) map[string]bool {
	set := map[string]bool{}
	for _, s := range list {
		set[s] = true
	}
	return set
}

// MaxRecord is the most bytes that a record of a text may have: a line, a row, a value.
const MaxRecord = 1 << 20

// Paced reads from r, and fails where more than MaxRecord bytes are read without Next in between: parsers of other
// packages keep a record in memory, however long it is.
type Paced struct {
	ctx  context.Context // ends the reading
	r    io.Reader
	left int64
}

// NewPaced returns a reader of r, at its first record. Once ctx is done reading fails with context.Cause(ctx).
func NewPaced(ctx context.Context, r io.Reader) *Paced { return &Paced{ctx, r, MaxRecord} }

// Next says that a record has been read.
func (p *Paced) Next() { p.left = MaxRecord }

// Read implements io.Reader.
func (p *Paced) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	if p.left <= 0 {
		return 0, fmt.Errorf("a record is longer than %d bytes", MaxRecord)
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	return n, err
}

// Counting counts the bytes that are read of R.
type Counting struct {
	R io.Reader
	N int64
}

// Read reads.
func (c *Counting) Read(p []byte) (int, error) {
	n, err := c.R.Read(p)
	c.N += int64(n)
	return n, err
}

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
