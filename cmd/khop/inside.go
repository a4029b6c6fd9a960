package main

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/option"
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

// ofInside are options of a loader in this process beside those of "khop serve".
type ofInside struct {
	Dataset string `kind:"path" help:"Dataset: a directory that khop has written."`
	Rank    int    `help:"The rank, of --world-size."`
}

// ofServers are flags of "khop serve" that mean something only where others connect.
func ofServers() []string {
	names := []string{"metrics", "parent", "json"} // of the command alone
	for _, o := range option.Of(server.Options{}) {
		if !o.At("library") {
			names = append(names, o.Name)
		}
	}
	return names
}

// openInside makes a loader of a configuration: what "khop serve --config" takes, with the dataset and the rank. Notes
// and warnings go to stderr. asProblem tells what errors say.
func openInside(ctx context.Context, config string, stderr io.Writer, w server.Within) (*inside, error) {
	d, err := parseDocument([]byte(config))
	if err != nil {
		return nil, &usage{err}
	}
	var of ofInside
	if err := option.TakeDocument(&of, option.Of(of), d); err != nil {
		return nil, &usage{err}
	}
	var cli commands
	parser, err := newParser(&cli, []string{"serve"}, stderr, stderr, kong.Resolvers(&resolver{document: d}))
	if err != nil {
		return nil, err
	}
	line, err := parser.Parse([]string{"serve", "--socket=none", "--", of.Dataset})
	if err != nil {
		return nil, &usage{err}
	}
	for _, at := range line.Path {
		if at.Flag != nil && slices.Contains(ofServers(), at.Flag.Name) {
			return nil, wrongOption(at.Flag.Name, " is for a server of its own: khop serve")
		}
	}
	env := &environment{ctx: ctx, stdout: stderr, stderr: stderr}
	i := &inside{release: heaps.enter(&env.memory)}
	if err = env.limitMemory(line); err == nil {
		err = i.open(env, &cli.Serve, of.Rank, w)
	}
	if err != nil {
		i.release()
		return nil, err
	}
	return i, nil
}

func (i *inside) open(env *environment, c *serveCmd, rank int, w server.Within) (err error) {
	if i.dataset, err = formats.Open(c.Dataset); err != nil {
		return err
	}
	opt, err := c.serverOptions(env, i.dataset)
	if err == nil {
		opt.Loader.Rank = rank
		i.Inside, err = server.NewInside(env.ctx, i.dataset, opt, w)
	}
	if err != nil {
		return errors.Join(err, i.dataset.Close())
	}
	return nil
}
