package arrayfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/direct"
)

// StringWriter takes a list of strings, in order, in constant memory. One goroutine at a time.
type StringWriter struct {
	f     *file
	l     Layout
	ends  *offsetWriter // the offsets, at the beginning of the body
	chars *offsetWriter // the characters, behind them
	n     int64         // strings taken
	done  *Written
	err   error
}

// Strings begins a list of strings in a file that is empty, and closes the file in the end.
func (s *Shared) Strings(f *os.File, path, name string, rows int64) (*StringWriter, error) {
	w := &StringWriter{f: &file{File: f, path: path, s: s}, l: NewLayout(Type{Name: name, Strings: true}, rows, 0)}
	w.ends = &offsetWriter{f: w.f, at: w.l.BodyOffset}
	w.chars = &offsetWriter{f: w.f, at: w.l.BodyOffset + w.l.Data}
	if err := w.f.reserve(w.l.BodyOffset + w.l.Bytes); err != nil {
		return nil, err
	}
	return w, w.putEnd()
}

func (s *StringWriter) putEnd() error {
	return s.ends.write(binary.LittleEndian.AppendUint64(make([]byte, 0, 8), uint64(s.chars.n)))
}

// Write takes the next string. It must be UTF-8. An error is final: later calls return it again.
func (s *StringWriter) Write(v string) error {
	if s.err != nil {
		return s.err
	}
	switch {
	case s.n == s.l.Rows:
		s.err = s.f.s.Misuse(s.f.path, s.l.Name, s.n,
			fmt.Errorf("one string more than the %s declared", humanize.Comma(s.l.Rows)))
		return s.err
	case !utf8.ValidString(v):
		s.err = s.f.s.Misuse(s.f.path, s.l.Name, s.n, fmt.Errorf("the string is %w: %.40q", graph.ErrText, v))
		return s.err
	}
	s.n++
	if s.err = s.chars.write([]byte(v)); s.err == nil {
		s.err = s.putEnd()
	}
	return s.err
}

// Close finishes the file, waits until it is on the disk, and says what was written. It is an error if strings are
// missing. Later calls return the first result.
func (s *StringWriter) Close() (*Written, error) {
	if s.done == nil && s.err == nil {
		s.done, s.err = s.finish()
	}
	return s.done, s.err
}

func (s *StringWriter) finish() (*Written, error) {
	if s.n != s.l.Rows {
		return nil, s.f.s.Misuse(s.f.path, s.l.Name, -1,
			fmt.Errorf("%s strings written, but %s declared", humanize.Comma(s.n), humanize.Comma(s.l.Rows)))
	}
	if err := s.ends.flush(); err != nil {
		return nil, err
	}
	if err := s.chars.flush(); err != nil {
		return nil, err
	}
	l := NewLayout(s.l.Type, s.l.Rows, s.chars.n)
	if _, err := s.f.WriteAt(l.Head(), 0); err != nil {
		return nil, s.f.fail(err, 0)
	}
	if err := s.f.Truncate(l.BodyOffset + l.Bytes); err != nil { // without characters the body ends in a gap
		return nil, s.f.fail(err, 0)
	}
	sums, err := s.hashBody(l)
	if err != nil {
		return nil, err
	}
	if _, err := s.f.Seek(l.BodyOffset+l.Bytes, io.SeekStart); err != nil {
		return nil, s.f.fail(err, 0)
	}
	return s.f.finish(l, sums)
}

// hashBody reads the body again: offsets and characters were written side by side, checksums go over them one by one.
func (s *StringWriter) hashBody(l Layout) ([]uint64, error) {
	h := newChunkHasher(s.f.s.ChunkBytes)
	r := io.NewSectionReader(s.f.File, l.BodyOffset, l.Bytes)
	buf := make([]byte, writeBuffer)
	for {
		n, err := r.Read(buf)
		h.add(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, s.f.fail(err, 0)
		}
	}
	return h.finish(), nil
}

// offsetWriter writes a stream to a region of a file.
type offsetWriter struct {
	f   *file
	at  int64 // where the buffer's first byte goes
	n   int64 // bytes taken
	buf []byte
}

func (o *offsetWriter) write(p []byte) error {
	o.n += int64(len(p))
	o.buf = append(o.buf, p...)
	if len(o.buf) < writeBuffer {
		return nil
	}
	return o.flush()
}

func (o *offsetWriter) flush() error {
	_, err := direct.WriteAt(o.f.File, o.buf, o.at)
	if err != nil {
		return o.f.fail(err, int64(len(o.buf)))
	}
	o.f.s.Wrote(int64(len(o.buf)))
	o.at += int64(len(o.buf))
	o.buf = o.buf[:0]
	return nil
}
