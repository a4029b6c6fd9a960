package source

import (
	"context"
	"fmt"
	"io"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/pinned"
)

// ListsOf returns the names of the lists of strings that a dataset has of a node type.
func ListsOf(ds *formats.Dataset, t int) (names []string) {
	owner := fmt.Sprint("nodes/", t)
	for _, a := range ds.Manifest().Columns {
		if a.Owner == owner && a.DType == "utf8" {
			names = append(names, a.Name)
		}
	}
	return names
}

// EachString yields a list of strings of a dataset, when it has been compared with its checksums.
func EachString(ds *formats.Dataset, list *formats.Strings, yield func(string) error) error {
	if err := ds.Verify(list.Bytes()); err != nil {
		return err
	}
	for i := range list.Len() {
		s, err := list.At(i)
		if err != nil {
			return err
		}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}

// CopyRows writes a dataset's rows of nodes, a part at a time, when it has been compared with its checksums.
func CopyRows(ctx context.Context, ds *formats.Dataset, rows []byte, w io.Writer) error {
	return ds.Each(rows, func(part []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return pinned.Guard(func() error { _, err := w.Write(part); return err })
	})
}
