package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/samplers"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/loader/config"
	"github.com/khop-gnn/khop/loader/layout"
)

type sampleCmd struct {
	loadFlags `embed:""`

	Epoch   uint32 `default:"0" help:"Number of the epoch."`
	First   uint64 `default:"0" help:"Number of the first batch."`
	Batches uint64 `placeholder:"N" help:"Number of batches, over all ranks; default: to the end of the epoch."`

	Digest bool `help:"Print each batch's number, topology digest and full digest."`
	JSON   bool `name:"json" xor:"output" help:"Print one JSON object."`
	JSONL  bool `name:"jsonl" xor:"output" help:"Print one JSON object per batch."`
}

// batchRecord is a batch in the output of "khop sample". Scripts rely on the names.
type batchRecord struct {
	Batch       uint64  `json:"batch"`
	Epoch       uint64  `json:"epoch"`
	Padded      bool    `json:"padded"`
	Seeds       int64   `json:"seeds"`
	Nodes       int64   `json:"nodes"`
	Edges       int64   `json:"edges"`
	NodesPerHop []int64 `json:"nodes_per_hop"`
	EdgesPerHop []int64 `json:"edges_per_hop"`
	Topology    string  `json:"topology,omitempty"` // with --digest
	Full        string  `json:"full,omitempty"`
}

// sampleResult is what "khop sample --json" prints.
type sampleResult struct {
	Dataset string        `json:"dataset"`
	Sampler string        `json:"sampler"`
	Batches []batchRecord `json:"batches"`
}

// Run loads the batches and prints a line each.
func (c *sampleCmd) Run(env *environment) (err error) {
	if !c.Digest { // nothing looks at columns
		c.withoutColumns()
	}
	if err := c.findRank(env); err != nil {
		return err
	}
	ld, err := c.open(env, nil)
	if err != nil {
		return err
	}
	defer closing(&err, ld.close)
	if n := ld.AllBatches(); c.First > 0 && c.First >= n { // over all ranks, as batches are numbered
		return wrongOption("first", " %d: an epoch has %d batches, the last of them number %d", c.First, n, int64(n)-1)
	}
	count := c.Batches
	if count == 0 {
		count = math.MaxUint64
	}
	result := sampleResult{Dataset: paths.Text(c.Dataset), Sampler: ld.Answer().Sampler.Fingerprint(),
		Batches: []batchRecord{}}
	if !c.JSON && !c.JSONL && !c.Digest {
		fmt.Fprintf(env.stdout, "%8s %8s %10s %11s  %s\n", "batch", "seeds", "nodes", "edges", "nodes after each hop")
	}
	defer underway.Moved("", 0, 0)
	for batch, err := range ld.Range(env.ctx, uint64(c.Epoch), c.First, count) {
		if err != nil {
			return err
		}
		moved("batches", int64(batch.Number), int64(ld.AllBatches()))
		r, err := c.record(ld.Arrays(), batch)
		switch {
		case err != nil:
		case c.JSON:
			result.Batches = append(result.Batches, r)
		case c.JSONL:
			err = env.printJSONLine(r)
		case c.Digest:
			_, err = fmt.Fprintln(env.stdout, r.Batch, r.Topology, r.Full)
		default:
			_, err = fmt.Fprintf(env.stdout, "%8d %8d %10d %11d  %s\n", r.Batch, r.Seeds, r.Nodes, r.Edges,
				strings.Trim(fmt.Sprint(r.NodesPerHop), "[]"))
		}
		if err != nil {
			return err
		}
	}
	if c.JSON {
		return env.printJSON(result)
	}
	return nil
}

// findRank takes the rank that a launcher has put into the environment, if none is given.
func (c *sampleCmd) findRank(env *environment) error {
	if c.placed {
		return nil
	}
	rank, size, from, err := config.FindRank()
	if c.loader.Rank, c.loader.WorldSize = rank, size; size > 1 {
		env.note("rank %d of %d: %s", rank, size, from)
	}
	return err
}

func (c *sampleCmd) record(arrays []layout.Array, b *loader.Batch) (batchRecord, error) {
	w := countBatch(arrays, b)
	r := batchRecord{Batch: b.Number, Epoch: b.Epoch, Padded: b.Padded, Seeds: w.seeds, Nodes: w.nodes, Edges: w.edges,
		NodesPerHop: w.nodesPerHop, EdgesPerHop: w.edgesPerHop}
	if c.Digest {
		if err := b.Sync(); err != nil {
			return r, err
		}
		topology, full := b.Digest()
		r.Topology, r.Full = fmt.Sprintf("%016x", topology), fmt.Sprintf("%016x", full)
	}
	return r, nil
}

type samplersCmd struct {
	JSON bool `name:"json" help:"Print one JSON object."`
}

// samplersResult is what "khop samplers --json" prints. Scripts rely on the names.
type samplersResult struct {
	Samplers []samplerRecord `json:"samplers"`
}

type samplerRecord struct {
	Name    string          `json:"name"`
	About   string          `json:"about"`
	Device  bool            `json:"device"` // runs on CUDA devices, too
	Why     string          `json:"why"`    // it does not
	Options []samplerOption `json:"options"`
}

type samplerOption struct {
	Name    string `json:"name"`
	Default string `json:"default"` // "" where there is none, as of a switch
	Switch  bool   `json:"switch"`  // takes no value
	CPU     bool   `json:"cpu"`     // with it the sampler runs on the CPU alone: true of none
	Help    string `json:"help"`
}

// Run prints the table of samplers.
func (c *samplersCmd) Run(env *environment) error {
	result := samplersResult{}
	for i := range samplers.All {
		s := &samplers.All[i]
		record := samplerRecord{Name: s.Name, About: s.About, Device: s.OnDevice(), Why: s.Why,
			Options: []samplerOption{}}
		for _, o := range s.Options() {
			record.Options = append(record.Options, samplerOption{o.Name, o.Default, o.Kind == "bool",
				false, o.Help})
		}
		result.Samplers = append(result.Samplers, record)
	}
	if c.JSON {
		return env.printJSON(result)
	}
	for _, s := range result.Samplers {
		where := "on the CPU and on CUDA devices"
		if !s.Device {
			where = "on the CPU: " + s.Why
		}
		fmt.Fprintf(env.stdout, "%s: %s; %s\n", s.Name, s.About, where)
		t := newTable(env.stdout)
		for _, o := range s.Options {
			t.row("  "+flagText(o.Name, o.Default), o.Help)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flagText spells a flag with its default.
func flagText(name, value string) string {
	if value != "" {
		value = "=" + value
	}
	return "--" + name + value
}
