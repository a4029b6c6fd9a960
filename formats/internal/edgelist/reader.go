package edgelist

import (
	"bytes"
	"context"
	"fmt"

	"github.com/khop-gnn/khop/formats/internal/source"
)

// Reader reads edge lists.
var Reader = source.Reader{Name: "edgelist", Title: "an edge list",
	Options: []string{"columns", "ids", "skips", "tables"}, Find: findGraphs, Read: readGraph, Plan: plan}

// findGraphs takes any text that is named; among other files the first lines must be rows of as many fields.
func findGraphs(t *source.Tree) []string {
	return t.Beginning(func(head []byte) bool { return Looks(head) && (t.Single() || even(head)) })
}

// even reports whether the first lines have equally many fields, two or more.
func even(head []byte) bool {
	fields, delim, cut := 0, byte(0), cutFields{}
	lines := bytes.Split(head, []byte("\n"))
	for i, line := range lines {
		if skippable(line) || i == len(lines)-1 && i > 0 {
			continue
		}
		if delim == 0 {
			delim = delimiter(line)
		}
		f, err := cut.split(line, delim)
		if fields == 0 {
			fields = len(f)
		}
		if err != nil || len(f) != fields || len(f) < 2 {
			return false
		}
	}
	return fields > 0
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	opt, err := optionsOf(r)
	switch {
	case err != nil:
		return nil, err
	case r.Slice != nil:
		return readPart(ctx, at, opt, r.Slice)
	}
	return Read(ctx, at, opt)
}

// optionsOf returns what is asked for.
func optionsOf(r *source.Request) (opt Options, err error) {
	ids, ok := map[string]IDs{"": Auto, "auto": Auto, "numbers": Numbers, "names": Names}[r.IDs]
	if !ok {
		return opt, fmt.Errorf("%w: ids %q: must be auto, numbers or names", source.ErrOptions, r.IDs)
	}
	return Options{IDs: ids, Columns: r.Columns, Nodes: r.Nodes, Budget: r.Budget, Progress: r.Progress,
		Skips: r.Skips}, nil
}
