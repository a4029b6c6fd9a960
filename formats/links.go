package formats

import (
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

// LinkSplit is a named set of links to predict, such as those of validation: edges, which need not be of the graph.
type LinkSplit struct {
	Name  string
	Index int
	Sets  []LinkSet
}

// LinkSet is the links of one edge type in a split, over the mapped files.
type LinkSet struct {
	EdgeType         int
	Sources, Targets unified.Tensor // own ids, int32 or int64, as many
	// Labels are 1 for links that are there and 0 for those that are given as not being there, or what else is to be
	// predicted, such as a relation; not valid where all links are there.
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

// LinkSplits returns all sets of links. The slice is the dataset's.
func (d *Dataset) LinkSplits() []LinkSplit { return d.links }

// Links returns a set of links; the error says what there is. The ids have not been checked against the graph: Check
// does.
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
