package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/warned"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/loader/layout"
)

// loadFlags say what to load and how; commands that load batches share them.
type loadFlags struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	optionFlags `embed:""`
}

// Help says what seeds may be, and options by type.
func (loadFlags) Help() string {
	return "Seeds are nodes or edges:\n" + helpTable([][2]string{
		{"train, val, test", "a split of nodes or links; --split is its index"},
		{"all, all:TYPE", "all nodes, or those of a type"},
		{"@FILE", "a node per line: ID, or TYPE ID in a typed graph"},
		{"timed@FILE", "a node and its time per line"},
		{"window@FILE", "a node, its time and its first time per line"},
		{"each:@FILE", "@FILE, read again for each epoch; also each:timed@FILE, each:window@FILE"},
		{"all-edges, all-edges:TYPE", "all edges, or those of a type"},
		{"edges@FILE", "an edge per line: [TYPE] SOURCE TARGET [LABEL [TIME [FIRST TIME]]]"},
		{"on-request", "khop serve: seeds come with requests"},
	}) + "\nOptions with a value per hop also take values by type, such as --window 'cites=60,10;*=0'."
}

// seeds returns what an epoch goes over; samplers with items of their own are given none.
func (f *loadFlags) seeds(env *environment, src loader.Source) (loader.SeedSource, error) {
	given := f.chosen.Seeds
	if given.arrays != nil {
		seeds, err := given.arrays.seeds(src.Graph().Schema())
		return loader.GivenSeeds(seeds), err
	}
	said, err := f.sampler.Describe(src.Graph().Schema(), f.loader.BatchSize)
	if given.name == "" && (said.Items != nil || err != nil) { // which the loader says, too
		return loader.SeedSource{}, nil
	}
	return env.seedSource(given.name, f.chosen.Split, src)
}

// said returns the loader's options as the flags say them, with defaults in place of what they do not say. As text they
// are a configuration, which lacks the seeds.
func (f *loadFlags) said() config.Options {
	o := f.loader
	o.Sampler = f.sampler
	return o
}

// withoutColumns asks for no rows of nodes.
func (f *loadFlags) withoutColumns() {
	f.loader.Columns.Nodes, f.loader.Columns.Seeds = []string{}, []string{}
}

// options returns the loader's options; src has the seeds.
func (f *loadFlags) options(env *environment, src loader.Source) (o loader.Options, err error) {
	if err := f.dateSeeds(src.Graph().Schema()); err != nil {
		return loader.Options{}, err
	}
	if o, err = f.said().Loader(); err != nil {
		return loader.Options{}, err
	}
	if o.Seeds, err = f.seeds(env, src); err != nil {
		return loader.Options{}, err
	}
	o.MaxMemory = env.memory.asked // loaders know themselves what the control group leaves
	return o, nil
}

// loading is a dataset and a loader of it.
type loading struct {
	dataset *formats.Dataset
	*loader.Loader
}

// open opens the dataset and a loader of it. planned, if not nil, receives the memory that the loader will need, before
// it takes any.
func (f *loadFlags) open(env *environment, planned func(loader.Estimate)) (*loading, error) {
	ds, err := f.openForLoaders(env, f.Dataset)
	if err != nil {
		return nil, err
	}
	opt, err := f.options(env, ds)
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	name, why := loader.ChooseDevice(opt)
	noteUnused(env, opt, name, why)
	opt.Device.Name = name
	if planned != nil {
		memory, err := loader.Plan(env.ctx, ds, opt)
		if err != nil {
			return nil, errors.Join(err, ds.Close())
		}
		planned(memory)
	}
	opt.Hooks.Logger = warned.To(func(text string) { env.note("note: %s", text) }, nil)
	ld, _, err := watched(env, func(bar *progress) (*loader.Loader, error) {
		opt.Hooks.Progress = bar.report()
		return loader.NewContext(env.ctx, ds, opt)
	})
	if err != nil {
		return nil, errors.Join(err, ds.Close())
	}
	return &loading{ds, ld}, nil
}

// gpus has an entry for each GPU that the system's driver knows.
var gpus = "/proc/driver/nvidia/gpus"

// noteUnused says why a GPU that is here does not make the batches, unless a device is asked for.
func noteUnused(env *environment, asked loader.Options, name, why string) {
	if asked.EnsureDefaults().Device.Name != "auto" || name != "cpu" {
		return
	}
	if known, _ := os.ReadDir(gpus); device.Count() > 0 || len(known) > 0 {
		env.note("%s: %s", name, why)
	}
}

// close ends the loader, then the dataset that it reads.
func (l *loading) close() error { return errors.Join(l.Loader.Close(), l.dataset.Close()) }

// work is what a batch holds, counted.
type work struct {
	seeds, nodes, edges int64
	nodesPerHop         []int64 // nodes after 0, 1, ... hops, of all types
	edgesPerHop         []int64 // edges drawn at each hop, of all types
}

// countBatch counts a batch, whose arrays are listed. Of layers that are views of one another it counts what each hop
// has drawn.
func countBatch(arrays []layout.Array, b *loader.Batch) work {
	s := b.Sample
	w := work{edgesPerHop: make([]int64, len(s.Blocks))} // the last layer is the hop out of the seeds
	for _, types := range s.NumNodes {
		n := int64(0)
		for _, k := range types {
			n += k
		}
		w.nodesPerHop = append(w.nodesPerHop, n)
		w.nodes = n
	}
	for i := range arrays {
		a, n := &arrays[i], b.Array(i).Len()
		hop := len(s.Blocks) - 1 - a.Layer
		switch {
		case a.Kind == layout.Seeds && b.Links(0) == nil, a.Kind == layout.LinkItems:
			w.seeds += n
		case a.Kind == layout.Indices:
			w.edgesPerHop[hop] += n
			if b.IsView(i) { // the next hop's list begins with it
				w.edgesPerHop[hop+1] -= n
			}
		}
	}
	for _, n := range w.edgesPerHop {
		w.edges += n
	}
	return w
}

// needs says what memory a loader takes, expected and at most.
func needs(e loader.Estimate) string {
	return fmt.Sprintf("%s, and %s if every batch were the largest that there can be",
		machine.Bytes(e.Expected.Total()), machine.Bytes(e.Bound.Total()))
}

// positive is a number from 1 to 2^31 - 1.
type positive int

// UnmarshalText reads the number.
func (p *positive) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number from 1 to %d", text, math.MaxInt32)
	}
	*p = positive(n)
	return nil
}
