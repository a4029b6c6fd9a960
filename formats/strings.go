package formats

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/pinned"
)

// Strings is a list of strings in a mapped file. It is safe for concurrent use and valid until its Dataset's Close.
type Strings struct {
	path string
	name string
	body []byte
	l    arrayfile.Layout
}

// Bytes returns the bytes of the list, for Verify of the dataset.
func (s *Strings) Bytes() []byte { return s.body }

// Len returns the number of strings.
func (s *Strings) Len() int64 { return s.l.Rows }

// At returns a copy of string i, 0 <= i < Len. ErrCorrupt if the file is damaged there.
func (s *Strings) At(i int64) (v string, err error) {
	if i < 0 || i >= s.l.Rows {
		return "", &Error{Path: s.path, Column: s.name, Row: i, Err: fmt.Errorf("there are %s strings",
			humanize.Comma(s.l.Rows))}
	}
	err = pinned.Guard(func() error {
		lo, hi := s.offset(i), s.offset(i+1)
		if lo < 0 || hi < lo || hi > s.l.Bytes-s.l.Data {
			return corruptf("it runs from %d to %d of %d bytes", lo, hi, s.l.Bytes-s.l.Data)
		}
		b := s.body[s.l.Data+lo : s.l.Data+hi]
		if !utf8.Valid(b) {
			return corruptf("it is not UTF-8")
		}
		v = string(b)
		return nil
	})
	if err != nil {
		return "", &Error{Path: s.path, Column: s.name, Row: i, Remedy: remedyConvert, Err: err}
	}
	return v, nil
}

func (s *Strings) offset(i int64) int64 { return int64(binary.LittleEndian.Uint64(s.body[8*i:])) }
