package formats

import (
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// taskSeparator stands between the names of a task and of one of its splits. No name has it.
const taskSeparator = ":"

// The arrays of a task's table besides its nodes, in their order: times, first times, and labels; or, where nodes are
// recommended to them, those that are, and where they begin for each row.
const (
	tableTime   = "time"
	tableFrom   = "from"
	tableLabel  = "label"
	tableTarget = "target"
	tableOffset = "offset"
)

var tableEnds = []string{"", tableTime, tableFrom, tableLabel, tableTarget, tableOffset}

// placed is a name, and where no other looks like it.
type placed struct{ place, name string }

// taskOf cuts the name of a task's table; task is "" for the name of another split.
func taskOf(name string) (task, split string) {
	if task, split, ok := strings.Cut(name, taskSeparator); ok {
		return task, split
	}
	return "", name
}

// names returns the names that a split's is made of.
func (sp *SplitInfo) names() []placed {
	task, split := taskOf(sp.Name)
	if sp.Task != taskTable || task == "" {
		return []placed{{"", sp.Name}}
	}
	return []placed{{"tasks", task}, {"tasks/" + task, split}}
}

// arrayType returns the type of a set's array: ids, but for labels of a task's table.
func (set *SetInfo) arrayType(sp *SplitInfo) (arrayfile.Type, error) {
	if sp.Task == taskTable && set.End == tableLabel {
		t, err := (&ArrayInfo{Owner: OwnerEdges, Name: sp.Name, DType: set.DType, Shape: set.Shape}).arrayType()
		if err == nil && t.Strings {
			err = corruptf("split %.100q has labels that are text", sp.Name)
		}
		return t, err
	}
	dtype, err := unified.ParseDType(set.DType)
	if err != nil || dtype != unified.Int32 && dtype != unified.Int64 || len(set.Shape) > 0 ||
		(set.End == tableTime || set.End == tableFrom || set.End == tableOffset) && dtype != unified.Int64 {
		return arrayfile.Type{}, corruptf("split %.100q %d has seeds of type %.20q", sp.Name, sp.Index, set.DType)
	}
	return arrayfile.Type{Name: sp.Name, DType: dtype}, nil
}

// checkTable checks that the arrays of a task's table are nodes, perhaps their times, perhaps with first times, and
// perhaps their labels, of equal length; or, in place of labels, the targets of an edge type and where they begin.
func (sp *SplitInfo) checkTable(s *graph.Schema) error {
	last, links := -1, false
	for i := range sp.Sets {
		set, first := &sp.Sets[i], &sp.Sets[0]
		at := slices.Index(tableEnds, set.End)
		rows, nodes := first.Parts[0].Rows, first.NodeType
		switch set.End {
		case tableTarget:
			e := set.EdgeType
			links = e != nil && *e >= 0 && *e < len(s.Edges) && s.Edges[*e].Src == nodes
			if !links {
				return corruptf("the table %.100q has targets of no edge type from its nodes", sp.Name)
			}
			rows, nodes = set.Parts[0].Rows, s.Edges[*e].Dst
		case tableOffset:
			rows++
			links = !links
		}
		if at <= last || i == 0 && at != 0 || (set.EdgeType != nil) != (set.End == tableTarget) ||
			set.NodeType != nodes || set.Parts[0].Rows != rows || set.End == tableTarget &&
			sp.Sets[i-1].End == tableLabel || set.End == tableFrom && sp.Sets[i-1].End != tableTime {
			return corruptf("the table %.100q: set %d, %.20q, is out of place", sp.Name, i, set.End)
		}
		last = at
	}
	if sp.Index != 0 || len(sp.names()) != 2 || links {
		return corruptf("the table %.100q is not one of a task", sp.Name)
	}
	return nil
}

// addTo adds the array of the table to its seeds.
func (set *SetInfo) addTo(to *graph.Seeds, t unified.Tensor) {
	switch ints, _ := unified.View[int64](t); set.End {
	case tableTime:
		to.Sets[0].Times = ints
	case tableFrom:
		to.Sets[0].From = ints
	case tableLabel:
		to.Sets[0].Labels = t
	case tableTarget:
		n := &to.Sets[0]
		to.Edges = []graph.EdgeSet{{Type: *set.EdgeType, Sources: n.IDs, Times: n.Times, From: n.From, Targets: t}}
		to.Sets = nil
	case tableOffset:
		to.Edges[0].Offsets = ints
	}
}

// tableArray is an array of a task's table.
type tableArray struct {
	set  SetInfo
	rows unified.Tensor // not valid: the table has none
}

// tableArrays returns the arrays of a task's table.
func tableArrays(seeds graph.Seeds, s *graph.Schema) (all []tableArray) {
	add := func(end string, nodeType int, rows unified.Tensor) {
		all = append(all, tableArray{SetInfo{NodeType: nodeType, End: end}, rows})
	}
	times := func(list []int64) unified.Tensor {
		if list == nil {
			return unified.Tensor{}
		}
		return unified.FromSlice(list)
	}
	for i := range seeds.Sets {
		set := &seeds.Sets[i]
		add("", set.Type, set.IDs)
		add(tableTime, set.Type, times(set.Times))
		add(tableFrom, set.Type, times(set.From))
		add(tableLabel, set.Type, set.Labels)
	}
	for i := range seeds.Edges {
		set := &seeds.Edges[i]
		e := &s.Edges[set.Type]
		add("", e.Src, set.Sources)
		add(tableTime, e.Src, times(set.Times))
		add(tableFrom, e.Src, times(set.From))
		add(tableTarget, e.Dst, set.Targets)
		all[len(all)-1].set.EdgeType = &set.Type
		add(tableOffset, e.Src, unified.FromSlice(set.Offsets))
	}
	return all
}

// isTable reports whether a split is the table of a task as it is stored: nodes with times or labels, or edges with
// targets of their own. Others that are called so are of a name that no split may have.
func isTable(s graph.Split) bool {
	n, e := s.Seeds.Sets, s.Seeds.Edges
	return s.Task() != "" && (len(n) == 1 && len(e) == 0 && n[0].Types == nil && n[0].IDs.Valid() &&
		(n[0].Times != nil || n[0].Labels.Valid()) || len(n) == 0 && len(e) == 1 && e[0].Offsets != nil)
}
