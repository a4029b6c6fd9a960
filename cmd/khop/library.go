//go:build libkhop && cgo

package main

import (
	"context"
	"io"

	"github.com/khop-gnn/khop/cmd/libkhop"
	"github.com/khop-gnn/khop/integrations/shm/server"
)

// With the tag libkhop the command is a shared library, whose functions are in cmd/libkhop.
func init() {
	libkhop.Version = versionNumber
	libkhop.OpenLoader = func(ctx context.Context, rank int, args []string, stderr io.Writer, w server.Within) (
		libkhop.Loader, error) {
		i, err := openInside(ctx, rank, args, stderr, w)
		if isUsage(err) {
			err = libkhop.Refused(err)
		}
		if err != nil { // an interface that holds nil is not nil
			return nil, err
		}
		return i, nil
	}
}
