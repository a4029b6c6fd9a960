package source

import (
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats"
)

// Skips counts the bad lines or rows of a source that are left out, and lists the first of them. It has one owner at a
// time. nil skips none.
type Skips struct {
	Limit int64 // how many may be left out
	count int64
	first []error
}

// listed is how many bad lines are named.
const listed = 20

// Any reports whether any line may be left out.
func (s *Skips) Any() bool { return s != nil && s.Limit > 0 }

// Skip takes what is wrong with a line: nil if the line is left out, else the error to end with.
func (s *Skips) Skip(err error) error {
	if !s.Any() {
		return err
	}
	if s.count == s.Limit {
		if at := (*formats.Error)(nil); errors.As(err, &at) {
			err = &formats.Error{Path: at.Path, Column: at.Column, Row: at.Row, Remedy: at.Remedy,
				Err: fmt.Errorf("%w; bad lines before it that were skipped: %d, which is as many as may be",
					at.Err, s.count)}
		}
		return err
	}
	if s.count++; len(s.first) < listed {
		s.first = append(s.first, err)
	}
	return nil
}

// Count returns how many were left out.
func (s *Skips) Count() int64 {
	if s == nil {
		return 0
	}
	return s.count
}

// Notes says what was left out.
func (s *Skips) Notes() (list []Note) {
	if s == nil || s.count == 0 {
		return nil
	}
	for _, err := range s.first {
		list = append(list, NewNote(Said, "", 1, "skipped: %w", err)) // option SkipBad asks for it
	}
	if more := s.count - int64(len(s.first)); more > 0 {
		list = append(list, NewNote(Said, "", more, "skipped: %d more bad lines", more))
	}
	return list
}
