package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/convert"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// edgeSeeds reads the values of --seeds that stand for edges; ok is false for others.
func (env *environment) edgeSeeds(name string, s *graph.Schema) (seeds loader.SeedSource, ok bool, err error) {
	if file, ok := strings.CutPrefix(name, "edges@"); ok {
		seeds, err := env.readEdgeFile(file, s)
		return loader.GivenSeeds(seeds), true, err
	}
	if name == "all-edges" {
		return loader.AllEdges(), true, nil
	}
	list, ok := strings.CutPrefix(name, "all-edges:")
	if !ok {
		return loader.SeedSource{}, false, nil
	}
	types := strings.Split(list, ",")
	find := s.EdgeTypes()
	for _, t := range types {
		if _, err := find(t); err != nil {
			return loader.SeedSource{}, true, wrongOption("seeds", " %s: %w", name, err)
		}
	}
	return loader.AllEdges(types...), true, nil
}

func (env *environment) readEdgeFile(path string, s *graph.Schema) (graph.Seeds, error) {
	f, err := convert.OpenText(path)
	if err != nil {
		return graph.Seeds{}, option.Wrong("seeds", " edges@%s: %w", path, err)
	}
	defer f.Close()
	l := edgeLines{schema: s, find: s.EdgeTypes()}
	if err := l.read(f, &env.memory.Ledger); err != nil {
		return graph.Seeds{}, inFile(path, err)
	}
	return l.seeds(), nil
}

// edgeLines are edges as a file lists them.
type edgeLines struct {
	schema           *graph.Schema
	find             func(string) (int, error)
	types            []int32
	sources, targets []int64
	values           [3][]int64 // labels, times, first times
	fields           int        // numbers of the first line
}

// read reads an edge a line: source, target, and perhaps a label, then a time, then a first time. On graphs with
// several edge types the type comes first, as in --fanouts. Empty lines and what follows a # are ignored. All lines
// have as many numbers.
func (l *edgeLines) read(r io.Reader, memory *pinned.Ledger) error {
	err := eachLine(r, memory, 5*8+4, func(text string) error {
		fields, edgeType := strings.Fields(text), 0
		if _, err := strconv.ParseInt(fields[0], 10, 64); err != nil {
			if edgeType, err = l.find(fields[0]); err != nil {
				return fmt.Errorf("%w: a line is source and target, or an edge type before them: %w", errSeedFile, err)
			}
			fields = fields[1:]
		}
		return l.add(edgeType, fields)
	})
	if err == nil && len(l.sources) == 0 {
		err = fmt.Errorf("%w: no edge in it", errSeedFile)
	}
	return err
}

func (l *edgeLines) add(edgeType int, fields []string) error {
	if len(l.sources) == 0 {
		l.fields = len(fields)
	}
	if len(fields) != l.fields || len(fields) < 2 || len(fields) > 5 {
		return fmt.Errorf("%w: %d numbers; a line has source, target, and perhaps a label, then a time, then a first "+
			"time: as many as the first line, which has %d", errSeedFile, len(fields), l.fields)
	}
	var n [5]int64
	for i, text := range fields {
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("%w: %q is not a whole number", errSeedFile, text)
		}
	}
	et := &l.schema.Edges[edgeType]
	for i, t := range [...]int{et.Src, et.Dst} {
		if err := checkNode(n[i], &l.schema.Nodes[t]); err != nil {
			return err
		}
	}
	l.types = append(l.types, int32(edgeType))
	l.sources, l.targets = append(l.sources, n[0]), append(l.targets, n[1])
	for i := range l.fields - 2 {
		l.values[i] = append(l.values[i], n[2+i])
	}
	return nil
}

// seeds returns the edges as seeds.
func (l *edgeLines) seeds() graph.Seeds {
	set := graph.EdgeSet{Sources: unified.FromSlice(l.sources), Targets: unified.FromSlice(l.targets),
		Labels: l.values[0], Times: l.values[1], From: l.values[2]}
	if len(l.schema.Edges) > 1 {
		set.Types = l.types
	}
	return graph.Seeds{Edges: []graph.EdgeSet{set}}
}
