package columnar

import (
	"errors"
	"fmt"
)

// RowError is an error at a row of a batch.
type RowError struct {
	Row int
	Err error
}

// AtRow returns the error of a row of a batch.
func AtRow(row int, err error) error { return &RowError{row, err} }

// Error returns what is wrong there.
func (e *RowError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong there.
func (e *RowError) Unwrap() error { return e.Err }

// ColumnError is an error within a column, at a row.
type ColumnError struct {
	Column string
	Row    int64
	Err    error
}

// InColumn returns the error of a row of a column; row -1: of the column.
func InColumn(column string, row int64, err error) error { return &ColumnError{column, row, err} }

// Error returns what is wrong, and where.
func (e *ColumnError) Error() string { return fmt.Sprintf("%s: row %d: %v", e.Column, e.Row, e.Err) }

// Unwrap returns what is wrong there.
func (e *ColumnError) Unwrap() error { return e.Err }

// ErrListGap is the error of a list of whole numbers of which one is missing.
var ErrListGap = errors.New("a number within a list is missing")
