package formats

import (
	"errors"
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// LinkSplit is a named set of links to predict, such as those of validation: edges, which need not be in the graph.
type LinkSplit struct {
	Name  string
	Index int
	Sets  []LinkSet
}

// LinkSet is the links of one edge type in a split, over the mapped files.
type LinkSet struct {
	EdgeType         int
	Sources, Targets unified.Tensor // own ids, int32 or int64, as many
	// Labels are 1 for links that exist and 0 for negatives, or another label to predict, such as a relation; not valid
	// if all links exist.
	Labels unified.Tensor
}

func (l *LinkSplit) add(set *SetInfo, t unified.Tensor) {
	if set.End == linkEnds[0] {
		l.Sets = append(l.Sets, LinkSet{EdgeType: *set.EdgeType, Sources: t})
		return
	}
	last := &l.Sets[len(l.Sets)-1]
	if set.End == linkEnds[1] {
		last.Targets = t
	} else {
		last.Labels = t
	}
}

// LinkSplits returns all sets of links. The slice is the dataset's: do not change it.
func (d *Dataset) LinkSplits() []LinkSplit { return d.links }

// Links returns a set of links; the error lists all sets. The ids have not been checked against the graph: Check does
// that.
func (d *Dataset) Links(name string, index int) (LinkSplit, error) {
	var names []string
	for _, l := range d.links {
		if l.Name == name && l.Index == index {
			return l, nil
		}
		names = append(names, fmt.Sprintf("%s %d", l.Name, l.Index))
	}
	return LinkSplit{}, fileError(d.dir, "", fmt.Errorf("there are no links %q %d; there are: %s", name, index,
		strings.Join(append(names, "no others"), ", ")))
}

// Seeds returns the links as seeds that are edges. If some have labels, those without get the label 1.
func (l LinkSplit) Seeds() (graph.Seeds, error) {
	var seeds graph.Seeds
	for _, set := range l.Sets {
		edges := graph.EdgeSet{Type: set.EdgeType, Sources: set.Sources, Targets: set.Targets}
		if set.Labels.Valid() {
			label, err := unified.Integers(set.Labels)
			if err != nil {
				return seeds, fmt.Errorf("labels of links %q: %w", l.Name, err)
			}
			for i := range set.Labels.Len() {
				edges.Labels = append(edges.Labels, label(i))
			}
		}
		seeds.Edges = append(seeds.Edges, edges)
	}
	return seeds, nil
}

// Split returns the seeds of a split: nodes, as Graph.Split does, or links if no split of nodes has the name. The ids
// have not been checked against the graph: Check and Seeds.Check do that.
func (d *Dataset) Split(name string, index int) (graph.Seeds, error) {
	seeds, err := d.graph.Split(name, index)
	if !errors.Is(err, graph.ErrNoSplit) {
		return seeds, err
	}
	links, noLinks := d.Links(name, index)
	if noLinks != nil {
		return seeds, fmt.Errorf("%w; of links %w", err, noLinks)
	}
	return links.Seeds()
}
