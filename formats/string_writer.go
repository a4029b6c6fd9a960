package formats

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// StringWriter takes a list of strings, in order, in constant memory. One goroutine at a time.
type StringWriter struct {
	a     *written
	l     layout
	w     *Writer
	ends  *offsetWriter // the offsets, at the beginning of the body
	chars *offsetWriter // the characters, behind them
	n     int64         // strings taken
	err   error
}

func newStringWriter(w *Writer, a *written, rows int64) (*StringWriter, error) {
	s := &StringWriter{a: a, w: w, l: newLayout(a.typ, rows, 0)}
	s.ends = &offsetWriter{f: a.file, at: s.l.bodyOffset}
	s.chars = &offsetWriter{f: a.file, at: s.l.bodyOffset + s.l.data}
	if err := a.file.reserve(s.l.bodyOffset + s.l.bytes); err != nil {
		return nil, err
	}
	return s, s.putEnd()
}

func (s *StringWriter) putEnd() error {
	return s.ends.write(binary.LittleEndian.AppendUint64(make([]byte, 0, 8), uint64(s.chars.n)))
}

// Write takes the next string. It must be UTF-8. An error is final: later calls return it again.
func (s *StringWriter) Write(v string) error {
	if s.err != nil {
		return s.err
	}
	if s.n == s.l.rows || !utf8.ValidString(v) {
		s.err = &Error{Path: s.a.file.path, Column: s.a.typ.name, Row: s.n,
			Err: fmt.Errorf("one string more than the %s declared, or not UTF-8", humanize.Comma(s.l.rows))}
		return s.err
	}
	s.n++
	if s.err = s.chars.write([]byte(v)); s.err == nil {
		s.err = s.putEnd()
	}
	return s.err
}

// Close finishes the file and waits until it is on the disk. It is an error if strings are missing. Later calls return
// the first result.
func (s *StringWriter) Close() error {
	if s.a.closed || s.err != nil {
		return s.err
	}
	if s.n != s.l.rows {
		s.err = &Error{Path: s.a.file.path, Column: s.a.typ.name, Row: -1,
			Err: fmt.Errorf("%s strings written, but %s declared", humanize.Comma(s.n), humanize.Comma(s.l.rows))}
		return s.err
	}
	s.err = s.finish()
	return s.err
}

func (s *StringWriter) finish() error {
	if err := s.ends.flush(); err != nil {
		return err
	}
	if err := s.chars.flush(); err != nil {
		return err
	}
	l := newLayout(s.a.typ, s.l.rows, s.chars.n)
	f := s.a.file
	if _, err := f.WriteAt(l.head(), 0); err != nil {
		return writeError(f.path, err, 0)
	}
	if err := f.Truncate(l.bodyOffset + l.bytes); err != nil { // without characters the body ends in a gap
		return writeError(f.path, err, 0)
	}
	sums, err := s.hashBody(l)
	if err != nil {
		return err
	}
	if _, err := f.Seek(l.bodyOffset+l.bytes, io.SeekStart); err != nil {
		return writeError(f.path, err, 0)
	}
	return s.a.finish(l, sums)
}

// hashBody reads the body again: offsets and characters were written side by side, checksums go over them one by one.
func (s *StringWriter) hashBody(l layout) ([]uint64, error) {
	h := newChunkHasher(s.w.opt.chunkBytes)
	r := io.NewSectionReader(s.a.file.File, l.bodyOffset, l.bytes)
	buf := make([]byte, writeBuffer)
	for {
		n, err := r.Read(buf)
		h.add(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fileError(s.a.file.path, "", err)
		}
	}
	return h.finish(), nil
}

// offsetWriter writes a stream to a region of a file.
type offsetWriter struct {
	f   *columnFile
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
	_, err := o.f.WriteAt(o.buf, o.at)
	if err != nil {
		return writeError(o.f.path, err, int64(len(o.buf)))
	}
	o.f.w.progress.add(int64(len(o.buf)))
	o.at += int64(len(o.buf))
	o.buf = o.buf[:0]
	return nil
}

func dirOf(path string) string {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return "."
	}
	return dir
}
