package formats

import (
	"strings"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/unified"
)

// taskSeparator stands between the names of a task and of one of its splits. No name has it.
const taskSeparator = ":"

// The arrays of a task's table besides its nodes.
const (
	tableTime  = "time"
	tableLabel = "label"
)

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
		set.End == tableTime && dtype != unified.Int64 {
		return arrayfile.Type{}, corruptf("split %.100q %d has seeds of type %.20q", sp.Name, sp.Index, set.DType)
	}
	return arrayfile.Type{Name: sp.Name, DType: dtype}, nil
}

// checkTable checks that the arrays of a task's table are nodes, perhaps their times, and perhaps their labels, of
// equal length.
func (sp *SplitInfo) checkTable() error {
	if sp.Task != taskTable {
		return nil
	}
	ends := []string{"", tableTime, tableLabel}
	last := -1
	for i := range sp.Sets {
		set, at := &sp.Sets[i], -1
		for k, end := range ends {
			if end == set.End {
				at = k
			}
		}
		if at <= last || i == 0 && at != 0 || set.EdgeType != nil || set.NodeType != sp.Sets[0].NodeType ||
			len(set.Parts) != 1 || set.Parts[0].Rows != sp.Sets[0].Parts[0].Rows {
			return corruptf("the table %.100q: set %d, %.20q, is out of place", sp.Name, i, set.End)
		}
		last = at
	}
	if sp.Index != 0 || len(sp.names()) != 2 {
		return corruptf("the table %.100q is not one of a task", sp.Name)
	}
	return nil
}
