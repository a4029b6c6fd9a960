package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/text/transform"

	"github.com/khop-gnn/khop/graph"
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
