package formats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// Sentinels for errors.Is. An *Error has the details.
var (
	// ErrCorrupt is returned for damage: an invalid checksum, offset or element.
	ErrCorrupt = arrayfile.ErrCorrupt
	// ErrVersion is returned for a dataset that a newer khop has written.
	ErrVersion = errors.New("unsupported format version")
	// ErrIncomplete is returned for a directory without a manifest: it is being written, or its writer died.
	ErrIncomplete = transaction.ErrIncomplete
	// ErrExist is returned for a target that exists and that Create must not replace.
	ErrExist = transaction.ErrExist
	// ErrBusy is the ErrExist of a target that another process writes.
	ErrBusy = transaction.ErrBusy
	// ErrSpace is returned for a file system without room for the dataset.
	ErrSpace = transaction.ErrSpace
	// ErrInput is returned for a target that is one of the inputs, contains one or is within one.
	ErrInput = wholefile.ErrInput
	// ErrNoStrings is returned for a list of strings that the dataset does not have.
	ErrNoStrings = errors.New("no such list of strings")
)

// Error says what is wrong, where, and what to do about it.
type Error struct {
	Path   string // file or directory
	Column string // name of the array; "" if the error is not of an array
	Row    int64  // its row, or -1
	Remedy string // what to do; may be ""
	Err    error  // what is wrong; wraps one of the sentinels, or an error of the system

	unit string // what a row is: "edge", "node"; "" means "row"
}

// Error returns "path: column: row n: what is wrong; remedy".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(paths.Text(e.Path))
	if e.Column != "" {
		fmt.Fprintf(&b, ": column %q", e.Column)
	}
	if e.Row >= 0 {
		unit := e.unit
		if unit == "" {
			unit = "row"
		}
		fmt.Fprintf(&b, ": %s %s", unit, humanize.Comma(e.Row))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(e.Remedy)
	}
	return b.String()
}

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

const (
	remedyConvert = `the dataset is damaged: restore it or convert again ("khop check" says what else is)`
	remedyForeign = `the file does not belong to this dataset: run "khop check" or convert again`
)

// fileError is an error about a whole file.
func fileError(path, remedy string, err error) *Error {
	return &Error{Path: path, Row: -1, Remedy: remedy, Err: err}
}

// corrupt is damage to a file.
func corrupt(path, format string, args ...any) *Error {
	return fileError(path, remedyConvert, corruptf(format, args...))
}

// corruptf wraps ErrCorrupt with what is wrong.
func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// Note is a sentence that a person should read about a conversion, and what it is about. Change says how the dataset
// differs from its source: "left out", "guessed", "renumbered", "renamed", "doubled" or "altered". For nodes that two
// splits share it is "shared", for other notes "said".
type Note struct {
	Change string `json:"change"`
	Name   string `json:"name"`  // of the file, type or column that it is about; "": of the whole source
	Count  int64  `json:"count"` // of the rows, edges, columns or files that it is about
	Text   string `json:"text"`
}

// String returns the sentence.
func (n Note) String() string { return n.Text }
