package disk

import (
	"errors"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/pinned"
)

// ReadError is a pinned.ErrFault: a place of a file that could not be read.
type ReadError struct {
	Path   string
	Offset int64
	Cause  error // of the system; io.ErrUnexpectedEOF where the file is cut short
}

// Error returns "path: byte n: what is wrong".
func (e *ReadError) Error() string {
	what := "the disk could not read it: " + fmt.Sprint(e.Cause)
	if errors.Is(e.Cause, io.ErrUnexpectedEOF) {
		what = "the file was cut short"
	}
	return fmt.Sprintf("%s: byte %s: %s", paths.Text(e.Path), humanize.Comma(e.Offset), what)
}

// Unwrap returns pinned.ErrFault and the cause.
func (e *ReadError) Unwrap() []error { return []error{pinned.ErrFault, e.Cause} }
