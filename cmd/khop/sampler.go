package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/loader"
)

// asked is a loader that answers requests of this process, and the dataset that it reads.
type asked struct {
	*loader.Loader
	dataset *formats.Dataset
	release func()
}

// Close ends the loader, then the dataset: answers that are held have memory of their own.
func (a *asked) Close() error {
	err := errors.Join(a.Loader.Close(), a.dataset.Close())
	a.release()
	return err
}

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
func openAsked(ctx context.Context, config string, stderr io.Writer) (*asked, error) {
	a := &asked{}
	err := configured(ctx, config, stderr, func(c *insideConfig) error {
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
