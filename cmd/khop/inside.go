package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm/server"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
)

// inside is a loader for one consumer in this process, and the dataset that it reads.
type inside struct {
	*server.Inside
	release func() error
}

// Close ends the loader, then the dataset.
func (i *inside) Close() error { return errors.Join(i.Inside.Close(), i.release()) }

// ofInside are options of a loader in this process beside those of "khop serve".
type ofInside struct {
	Dataset string `kind:"path" help:"Dataset directory, or its address in a store."`
	Rank    int    `help:"The rank, of --world-size."`
}

// ofServers are flags of "khop serve" that mean something only where others connect.
func ofServers() []string {
	names := []string{"metrics", "http", "parent", "json"} // of the command alone
	for _, o := range given.Of(server.Options{}) {
		if !o.At("library") {
			names = append(names, o.Name)
		}
	}
	return names
}

// openInside makes a loader of a configuration: what "khop serve --config" takes, with the dataset and the rank. Notes
// and warnings go to stderr. asProblem tells what errors say. memory is a dataset in memory, which stays the caller's,
// in place of that of the configuration; nil: there is none.
func openInside(ctx context.Context, text string, memory *formats.Dataset, stderr io.Writer, w server.Within) (*inside,
	error) {
	i := &inside{}
	err := configured(ctx, text, memory, stderr, func(c *insideConfig) (err error) {
		opt, err := c.serverOptions(c.env, c.dataset)
		if err == nil {
			opt.Loader.Rank = c.rank
			i.Inside, err = server.NewInside(ctx, c.dataset, opt, w)
		}
		i.release = c.release
		return err
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// insideConfig is a configuration of what runs in this process, and the dataset that it is about.
type insideConfig struct {
	*serveCmd
	rank    int
	env     *environment
	dataset *formats.Dataset
	release func() error // closes the dataset unless it is another's, and ends the limits of memory
}

// configured reads a configuration and opens its dataset, unless memory is one. What it has taken it gives back where
// f fails.
func configured(ctx context.Context, text string, memory *formats.Dataset, stderr io.Writer,
	f func(*insideConfig) error) error {
	c := &insideConfig{serveCmd: &serveCmd{}, env: &environment{ctx: ctx, stdout: stderr, stderr: stderr}}
	said, err := c.read(text)
	if err != nil {
		return &usage{err}
	}
	leave := heaps.enter(&c.env.memory)
	c.release = func() error { leave(); return nil }
	if err = c.env.limitTo(said); err == nil {
		err = c.open(memory, leave)
	}
	if err == nil {
		err = c.env.memory.explain(f(c))
	}
	if err != nil {
		err = errors.Join(err, c.release())
	}
	return err
}

// open opens the dataset of the configuration, unless memory is one, which is not closed.
func (c *insideConfig) open(memory *formats.Dataset, leave func()) (err error) {
	switch {
	case memory == nil:
		if c.dataset, err = c.openForLoaders(c.env, c.Dataset); err == nil {
			c.release = func() error { defer leave(); return c.dataset.Close() }
		}
	case c.Dataset != "":
		err = wrongOption("dataset", " %s: a graph in memory is given", c.Dataset)
	default:
		c.dataset = memory
	}
	return err
}

// read sets the options as a configuration gives them, and returns these.
func (c *insideConfig) read(text string) (given.Values, error) {
	d, err := config.ParseDocument([]byte(text))
	if err != nil {
		return nil, err
	}
	var of ofInside
	if err := given.TakeDocument(&of, given.Of(of), d); err != nil {
		return nil, err
	}
	c.Dataset, c.rank = of.Dataset, of.Rank
	for _, name := range ofServers() {
		if value := d[name]; value != nil && string(value) != "null" && string(value) != "false" {
			return nil, wrongOption(name, " is for a server of its own: khop serve")
		}
	}
	var flags []string
	for _, o := range c.declare("serve") {
		if flags = append(flags, o.Name); o.Short != "" {
			flags = append(flags, o.Short)
		}
	}
	if err := unknown(d, "serve", append(flags, append(ofServers(), "config")...)); err != nil {
		return nil, err
	}
	said := given.Values{option.NameOf(server.Options{}, "Path").Option: "none"}
	if err := c.takeDocument(said, d); err != nil {
		return nil, err
	}
	return said, c.set(said)
}

// asked is a loader that answers requests of this process, and the dataset that it reads.
type asked struct {
	*loader.Loader
	dataset *formats.Dataset
	release func() error
}

// Close ends the loader, then the dataset: answers that are held have memory of their own.
func (a *asked) Close() error { return errors.Join(a.Loader.Close(), a.release()) }

// Sample is loader.Loader's, but options have the names of a configuration in its errors.
func (a *asked) Sample(ctx context.Context, r loader.Request) (*loader.Batch, error) {
	b, err := a.Loader.Sample(ctx, r)
	if err != nil {
		return nil, inKeys{err}
	}
	return b, nil
}

// inKeys is an error in the words of a configuration.
type inKeys struct{ error }

func (e inKeys) Error() string { return paths.Message(errorText(e.error, option.Key)) }
func (e inKeys) Unwrap() error { return e.error }

// Path names the dataset.
func (a *asked) Path() string { return paths.Text(a.dataset.Path()) }

// askedTimeout is how long a request waits for an answer to be released, before its caller may look at what else there
// is to do.
const askedTimeout = 100 * time.Millisecond

// openAsked makes a loader of requests of a configuration, as openInside makes one of epochs.
func openAsked(ctx context.Context, text string, memory *formats.Dataset, stderr io.Writer) (*asked, error) {
	a := &asked{}
	err := configured(ctx, text, memory, stderr, func(c *insideConfig) error {
		if s := c.chosen.Seeds; s.name != "" || s.arrays != nil {
			return wrongOption("seeds", " come with each request")
		}
		c.chosen.Seeds.name = onRequest
		opt, err := c.serverOptions(c.env, c.dataset)
		if err != nil {
			return err
		}
		opt.Loader.Tuning.Prefetch += opt.Hold
		opt.Loader.Tuning.SlotTimeout = askedTimeout
		a.Loader, err = loader.NewContext(ctx, c.dataset, opt.Loader)
		a.dataset, a.release = c.dataset, c.release
		return err
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}
