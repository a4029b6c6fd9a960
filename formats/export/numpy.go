package export

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats"
	foreign "github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/pinned"
)

// named is an array with its name, which may have folders.
type named struct {
	name string
	*output
}

// naming is how arrays are called.
type naming struct {
	feature, label string
	node, edge     string // before the names of other columns
	nodes, edges   string // folders of the folders of types
	masks          bool   // splits are masks where they can be: in ascending order
	unordered      bool   // splits in another order are masks, too
}

var (
	foldersNames = naming{feature: "node_feat", label: "node_label", node: "node_", edge: "edge_", nodes: "nodes/",
		edges: "edges/"}
	pygNames = naming{feature: "x", label: "y", node: "node_", edge: "edge_", masks: true}
	pygFile  = naming{feature: "x", label: "y", node: "node_", edge: "edge_", masks: true, unordered: true}
)

// numpy writes a folder of arrays.
func numpy(j *job) error {
	list, err := j.arrays(&foldersNames)
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := j.file(a.name+".npy", a.writeTo); err != nil {
			return err
		}
	}
	return j.sign()
}

// npz writes one archive of arrays. They are stored as they are, so that NumPy maps or reads them at once.
func npz(j *job) error {
	list, err := j.arrays(&pygNames)
	if err != nil {
		return err
	}
	return j.file("", func(w io.Writer) error {
		z := zip.NewWriter(w)
		for _, a := range list {
			m, err := z.CreateHeader(&zip.FileHeader{Name: a.name + ".npy", Method: zip.Store,
				Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
			if err == nil {
				err = a.writeTo(m)
			}
			if err != nil {
				return err
			}
		}
		return z.Close()
	})
}

// arrays lists all arrays of the dataset. Those of several types are in folders: node type, or
// source__relation__target.
func (j *job) arrays(by *naming) (list []named, err error) {
	add := func(folder, name string, a *output) { list = append(list, named{folder + name, a}) }
	typed := len(j.s.Nodes) > 1 || len(j.s.Edges) > 1
	folder := func(in, name string) string {
		if !typed {
			return ""
		}
		return in + name + "/"
	}
	ofEdge := func(t int) string {
		return folder(by.edges, edgeFolder(&j.s.Edges[t]))
	}
	for t := range j.s.Edges {
		in := ofEdge(t)
		add(in, "edge_index", j.edgeIndex(t))
		for _, c := range j.s.EdgeColumns {
			col, _ := j.g.EdgeColumn(c.Name)
			add(in, by.ofEdges(c), j.edgeColumn(c, col, t))
		}
	}
	for t, n := range j.s.Nodes {
		in := folder(by.nodes, safe(n.Name))
		count := n.Count
		add(in, "num_nodes", &output{"<i8", nil, func(w io.Writer) error {
			return binary.Write(w, binary.LittleEndian, count)
		}})
		for _, c := range n.Columns {
			col, _ := j.g.NodeColumn(t, c.Name)
			add(in, by.ofNodes(c), j.column(c, col))
		}
		if list, err = j.addNames(list, in, t); err != nil {
			return nil, err
		}
	}
	for _, s := range j.splits() {
		for _, set := range s.Seeds.Sets {
			add(folder(by.nodes, safe(j.s.Nodes[set.Type].Name)), splitName(s.Name, s.Index, ""), nil)
			last := &list[len(list)-1]
			if mask := j.maskOf(by, last.name, set); mask != nil {
				last.name, last.output = last.name+"_mask", mask
			} else {
				last.name, last.output = last.name+"_idx", j.seeds(set)
			}
		}
	}
	for _, k := range j.ds.LinkSplits() {
		for _, set := range k.Sets {
			in := ofEdge(set.EdgeType) + "link_"
			add(in, splitName(k.Name, k.Index, "_source"), j.list(set.Sources))
			add(in, splitName(k.Name, k.Index, "_target"), j.list(set.Targets))
			if set.Labels.Valid() {
				add(in, splitName(k.Name, k.Index, "_label"), j.list(set.Labels))
			}
		}
	}
	return list, unequal(list)
}

// edgeFolder is the folder of the arrays of an edge type.
func edgeFolder(e *graph.EdgeType) string {
	return safe(e.Source) + "__" + safe(e.Relation) + "__" + safe(e.Target)
}

// addNames adds the strings of a node type.
func (j *job) addNames(list []named, in string, t int) ([]named, error) {
	for _, name := range foreign.ListsOf(j.ds, t) {
		strings, err := j.ds.Strings(t, name)
		if err == nil {
			err = j.ds.Verify(strings.Bytes())
		}
		if err != nil {
			return nil, err
		}
		a, err := j.names(strings)
		if err != nil {
			j.note("the names %q of %q are left out: %v", name, j.s.Nodes[t].Name, err)
			continue
		}
		list = append(list, named{in + "names_" + safe(name), a})
	}
	return list, nil
}

func splitName(name string, index int, end string) string {
	if index > 0 {
		return fmt.Sprintf("%s_%d%s", safe(name), index, end)
	}
	return safe(name) + end
}

func (n *naming) ofNodes(c graph.Column) string {
	switch c.Role() {
	case graph.Feature:
		return n.feature
	case graph.Label:
		return n.label
	}
	return n.node + safe(c.Name)
}

func (n *naming) ofEdges(c graph.Column) string {
	if c.Role() == graph.Feature {
		return "edge_attr"
	}
	return n.edge + safe(c.Name)
}

// maxStem is the most bytes of a name that become part of a file's: several together are a file name everywhere.
const maxStem = 64

// safe makes a name one that is part of a file's name everywhere: the name itself, where it is. Else it ends in a hash,
// so that different names have different files.
func safe(name string) string {
	s := strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	if len(s) > maxStem {
		s = strings.ToValidUTF8(s[:maxStem], "")
	}
	if s != name || s == "." || s == ".." {
		s += fmt.Sprintf("-%08x", uint32(xxh3.HashString(name)))
	}
	return s
}

// unequal refuses arrays that would have the same name.
func unequal(list []named) error {
	seen := make(map[string]bool, len(list))
	for _, a := range list {
		if seen[a.name] {
			return fmt.Errorf("%w: two arrays would both be %q: rename one of them, or export to parquet",
				formats.ErrExist, a.name)
		}
		seen[a.name] = true
	}
	return nil
}

// maskOf returns a split as a mask, where it is named so.
func (j *job) maskOf(by *naming, name string, s graph.SeedSet) *output {
	mask := j.mask(s)
	if mask == nil && by.unordered {
		return j.unordered(name, s)
	}
	if !by.masks {
		return nil
	}
	return mask
}

// mask returns seeds as a boolean a node; nil where that would lose their order, or repeats.
func (j *job) mask(s graph.SeedSet) *output {
	at, err := j.idsOf(s)
	if !s.IDs.Valid() || err != nil { // who writes them says that they are damaged
		return nil
	}
	count := j.s.Nodes[s.Type].Count
	for i := range s.IDs.Len() {
		if v := at(i); v < 0 || v >= count || i > 0 && v <= at(i-1) {
			return nil
		}
	}
	return &output{"|b1", []int64{count}, func(w io.Writer) error {
		const step = 1 << 18
		next := int64(0)
		for lo := int64(0); lo < count; lo += step {
			buf := make([]byte, min(step, count-lo))
			for ; next < s.IDs.Len() && at(next) < lo+int64(len(buf)); next++ {
				buf[at(next)-lo] = 1
			}
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
		return nil
	}}
}

// unordered returns seeds in any order as a boolean a node, with a note; nil where they repeat.
func (j *job) unordered(name string, s graph.SeedSet) *output {
	at, err := j.idsOf(s)
	if !s.IDs.Valid() || err != nil {
		return nil
	}
	count := j.s.Nodes[s.Type].Count
	if j.opt.Memory.Take(pinned.Scratch, count) != nil { // ids take none
		return nil
	}
	mask := make([]byte, count)
	for i := range s.IDs.Len() {
		v := at(i)
		if v < 0 || v >= count || mask[v] != 0 {
			j.opt.Memory.Give(pinned.Scratch, count)
			return nil
		}
		mask[v] = 1
	}
	j.note("the order of %q is lost: it is a mask", name)
	return &output{"|b1", []int64{count}, func(w io.Writer) error {
		defer j.opt.Memory.Give(pinned.Scratch, count)
		_, err := w.Write(mask)
		return err
	}}
}
