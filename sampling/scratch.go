package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// scratch is memory besides samples, of a worker or a prepared sampler: buffers that are freed together.
type scratch struct {
	options pinned.Options
	buffers []*unified.Buffer
}

// own makes buffers, which hold nothing yet, part of the scratch.
func (s *scratch) own(buffers ...*unified.Buffer) {
	for _, b := range buffers {
		b.Options = s.options
	}
	s.buffers = append(s.buffers, buffers...)
}

// Close frees the buffers. Nothing may use them any more.
func (s *scratch) Close() error {
	var errs []error
	for _, b := range s.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}
