//go:build libkhop && cgo

package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/khop-gnn/khop/cmd/libkhop"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/project"
)

// With the tag libkhop the command is a shared library, whose functions are in cmd/libkhop.
func init() {
	libkhop.Version = project.Version()
	libkhop.Main = main
	libkhop.Run = func(arguments []string, stdout, stderr *os.File) int {
		return run(context.Background(), arguments, stdout, stderr, false)
	}
	libkhop.OpenLoader = func(ctx context.Context, config string, memory *formats.Dataset, stderr io.Writer,
		w server.Within) (libkhop.Loader, error) {
		i, err := openInside(ctx, config, memory, stderr, w)
		if err != nil {
			return nil, toldInside(err)
		}
		return i, nil
	}
	libkhop.OpenSampler = func(ctx context.Context, config string, memory *formats.Dataset, stderr io.Writer) (
		libkhop.Sampler, error) {
		a, err := openAsked(ctx, config, memory, stderr)
		if err != nil {
			return nil, toldInside(err)
		}
		return a, nil
	}
}

// toldInside is an error of a configuration as the library tells it.
func toldInside(err error) error {
	p := asProblem(err)
	if err = errors.New(p.line(libkhop.ErrorBytes)); p.Usage {
		err = libkhop.Refused(err)
	}
	return err
}
