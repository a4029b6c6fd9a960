package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/paths"
)

// inside is a loader for one consumer in this process, and the dataset that it reads.
type inside struct {
	*server.Inside
	dataset *formats.Dataset
	release func()
}

// Close ends the loader, then the dataset.
func (i *inside) Close() error {
	err := errors.Join(i.Inside.Close(), i.dataset.Close())
	i.release()
	return err
}

// ofServers are flags of "khop serve" that mean something only where others connect.
var ofServers = []string{"broadcast", "epochs", "max-consumers", "reader-timeout", "state", "metrics", "parent", "json"}

// openInside makes a loader of a rank with the arguments of "khop serve": a dataset and flags. Notes and warnings go to
// stderr. Errors have the words of the command; isUsage tells those of its exit status 2.
func openInside(ctx context.Context, rank int, args []string, stderr io.Writer, w server.Within) (*inside, error) {
	var cli commands
	parser, err := newParser(&cli, stderr, stderr)
	if err != nil {
		return nil, err
	}
	line, err := parser.Parse(append([]string{"serve", "--socket=none"}, args...))
	if err != nil {
		return nil, usageError("%s", paths.Message(err.Error()))
	}
	for _, at := range line.Path {
		if at.Flag != nil && slices.Contains(ofServers, at.Flag.Name) {
			return nil, usageError("--%s is for a server of its own: khop serve", at.Flag.Name)
		}
	}
	i := &inside{release: heaps.enter()}
	if err := i.open(ctx, &cli.Serve, rank, stderr, w); err != nil {
		i.release()
		text := paths.Message(errorText(err))
		if isUsage(err) {
			return nil, usageError("%s", text)
		}
		return nil, errors.New(text)
	}
	return i, nil
}

func (i *inside) open(ctx context.Context, c *serveCmd, rank int, stderr io.Writer, w server.Within) (err error) {
	if i.dataset, err = formats.Open(c.Dataset); err != nil {
		return err
	}
	opt, err := c.serverOptions(&environment{ctx: ctx, stdout: stderr, stderr: stderr}, i.dataset)
	if err == nil {
		opt.Loader.Rank = rank
		i.Inside, err = server.NewInside(ctx, i.dataset, opt, w)
	}
	if err != nil {
		return errors.Join(err, i.dataset.Close())
	}
	return nil
}

// heaps has the Go heap as it was when the last loader in this process is gone.
var heaps sharedHeap

type sharedHeap struct {
	mu   sync.Mutex
	uses int
	undo func()
}

// enter returns a function that leaves, to be called once.
func (h *sharedHeap) enter() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.uses++; h.uses == 1 {
		h.undo = keepHeap()
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.uses--; h.uses == 0 {
			h.undo()
		}
	}
}
