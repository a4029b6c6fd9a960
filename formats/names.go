package formats

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/names"
)

// Names within a dataset's directory.
const (
	manifestName = "dataset.json"
	ownerNodes   = "nodes/"
	taskNode     = "node"
	taskLink     = "link"
	taskTable    = "table"
	extension    = ".arrow"
	stringsDType = "utf8" // of lists of strings

	nameIndptr  = "indptr"
	nameIndices = "indices"
	nameType    = "type"
	nameEdgeID  = "edge_id"
)

// checkNames checks the names that no schema has, and those of one owner with each other: of lists of strings, splits.
func (c *Content) checkNames() error {
	places := map[string]*names.Set{}
	add := func(place, what, name string) error {
		if places[place] == nil {
			places[place] = &names.Set{}
		}
		return places[place].Add(what, name)
	}
	for i := range c.Columns {
		if a := &c.Columns[i]; a.Owner != OwnerGraph {
			if err := add(a.Owner, "column of "+a.Owner, a.Name); err != nil {
				return err
			}
		}
	}
	for i := range c.Splits {
		for _, part := range c.Splits[i].names() {
			if err := add(part.place, "split", part.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// taken are names that an edge column's file cannot have, because the structure's files have them or may one day.
var taken = map[string]bool{nameIndptr: true, nameIndices: true, nameType: true, nameEdgeID: true, "by_source": true}

// reserved are names that some systems do not allow for files.
var reserved = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}

// fileStem returns a file name for a column's name: the name itself where it is plain, else what is plain of it and a
// hash of all of it. It depends on nothing but the name, so that equal datasets have equal files.
func fileStem(name string) string {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '_'
	}
	s := strings.Map(plain, name)
	device := len(s) == 4 && (strings.HasPrefix(s, "com") || strings.HasPrefix(s, "lpt"))
	if s == name && s != "" && len(s) <= 60 && !reserved[s] && !device {
		return s
	}
	return hashedStem(s, name)
}

func hashedStem(plain, name string) string {
	return fmt.Sprintf("%s-%08x", plain[:min(len(plain), 48)], uint32(xxh3.HashString(name)))
}

func topologyPath(name string) string { return "graph/" + name + extension }

func edgeColumnPath(name string) string {
	stem := fileStem(name)
	if taken[stem] {
		stem = hashedStem(stem, name)
	}
	return "graph/" + stem + extension
}

func nodeColumnPath(nodeType int, name string) string {
	return fmt.Sprintf("nodes/n%d/%s%s", nodeType, fileStem(name), extension)
}

// splitPath names the file of one node type's seeds: splits/node/train.arrow, splits/node-3/train.arrow for split 3,
// and train.n2.arrow for node type 2.
func splitPath(name string, index, nodeType int) string {
	dir, suffix := taskNode, ""
	if index > 0 {
		dir = fmt.Sprintf("%s-%d", taskNode, index)
	}
	if nodeType > 0 {
		suffix = fmt.Sprintf(".n%d", nodeType)
	}
	return "splits/" + dir + "/" + fileStem(name) + suffix + extension
}

// tablePath names the file of one array of a task's table: tasks/plane_late/train.time.arrow.
func tablePath(name, end string) string {
	task, split := taskOf(name)
	return fmt.Sprintf("tasks/%s/%s.%s%s", fileStem(task), fileStem(split), cmp.Or(end, "node"), extension)
}

// linkPath names the file of one array of the links of an edge type: splits/link/val.e0-source.arrow.
func linkPath(name string, index, edgeType int, end string) string {
	dir := taskLink
	if index > 0 {
		dir = fmt.Sprintf("%s-%d", taskLink, index)
	}
	return fmt.Sprintf("splits/%s/%s.e%d-%s%s", dir, fileStem(name), edgeType, end, extension)
}
