package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// graphbolt writes a folder that dgl.graphbolt.OnDiskDataset opens.
func graphbolt(j *job) error {
	list, err := j.boltArrays()
	if err != nil {
		return err
	}
	for _, a := range list {
		if err := j.file(a.name, a.writeTo); err != nil {
			return err
		}
	}
	if err := j.file("metadata.yaml", j.metadata); err != nil {
		return err
	}
	return j.sign()
}

func (j *job) boltArrays() (list []named, err error) {
	for t, e := range j.s.Edges {
		list = append(list, named{j.boltEdges(t) + ".npy", j.edgeIndex(t)})
		for _, c := range j.s.EdgeColumns {
			col, _ := j.g.EdgeColumn(c.Name)
			list = append(list, named{boltColumn("edge", e.String(), c.Name), j.edgeColumn(c, col, t)})
		}
	}
	for t, n := range j.s.Nodes {
		for _, c := range n.Columns {
			col, _ := j.g.NodeColumn(t, c.Name)
			list = append(list, named{boltColumn("node", n.Name, c.Name), j.column(c, col)})
		}
	}
	for _, s := range j.splits() {
		for _, set := range s.Seeds.Sets {
			name := boltSet(s, j.s.Nodes[set.Type].Name)
			list = append(list, named{name + "_seeds.npy", j.seeds(set)})
			if labels, ok := j.classes(set.Type); ok {
				list = append(list, named{name + "_labels.npy", j.labelsOf(set, labels)})
			}
		}
	}
	for _, k := range j.ds.LinkSplits() {
		j.note("links %q are left out: GraphBolt's tasks of links differ", k.Name)
	}
	return list, unequal(list)
}

// labelsOf are the labels of seeds.
func (j *job) labelsOf(set graph.SeedSet, labels unified.Tensor) *output {
	return &output{"<i8", []int64{set.Len()}, func(w io.Writer) error {
		at, err := j.integers(labels)
		if err != nil {
			return err
		}
		id, err := j.idsOf(set)
		if err != nil {
			return err
		}
		out := newWords(w)
		for i := range set.Len() {
			v := id(i)
			if v < 0 || v >= labels.Len() {
				return fmt.Errorf("%s: %w: a split has node %d of %d; %s", j.ds.Path(), formats.ErrCorrupt, v,
					labels.Len(), j.ds.Remedy())
			}
			if err := out.put(at(v)); err != nil {
				return err
			}
		}
		return out.Flush()
	}}
}

func (j *job) boltEdges(t int) string { return "edges/" + safeType(j.s.Edges[t].String()) }

func boltColumn(domain, owner, name string) string {
	return "data/" + domain + "_" + safeType(owner) + "_" + safe(name) + ".npy"
}

// safeType is safe of a node type, or of the names of an edge type.
func safeType(owner string) string {
	names := strings.Split(owner, ":")
	for i := range names {
		names[i] = safe(names[i])
	}
	return strings.Join(names, "_")
}

func boltSet(s graph.Split, nodeType string) string {
	return "set/" + splitName(s.Name, s.Index, "_"+safe(nodeType))
}

// classes returns the labels of a node type, if they are whole numbers.
func (j *job) classes(t int) (unified.Tensor, bool) {
	labels, ok := j.g.NodeRole(t, graph.Label)
	if !ok {
		return labels, false
	}
	_, err := unified.Integers(labels)
	return labels, err == nil
}

// The parts of metadata.yaml. It is written as JSON, which is YAML too.
type (
	boltMeta struct {
		Name     string        `json:"dataset_name"`
		Graph    boltGraph     `json:"graph"`
		Features []boltFeature `json:"feature_data"`
		Tasks    []boltTask    `json:"tasks"`
	}
	boltGraph struct {
		Nodes []boltNodes `json:"nodes"`
		Edges []boltFile  `json:"edges"`
	}
	boltNodes struct {
		Num  int64  `json:"num"`
		Type string `json:"type,omitempty"`
	}
	boltFile struct {
		Name     string `json:"name,omitempty"`
		Format   string `json:"format"`
		Type     string `json:"type,omitempty"`
		InMemory *bool  `json:"in_memory,omitempty"`
		Path     string `json:"path"`
	}
	boltFeature struct {
		Domain string `json:"domain"`
		boltFile
	}
	boltTask struct {
		Name    string     `json:"name"`
		Classes int        `json:"num_classes,omitempty"`
		Train   []boltSeed `json:"train_set"`
		Val     []boltSeed `json:"validation_set"`
		Test    []boltSeed `json:"test_set"`
	}
	boltSeed struct {
		Type string     `json:"type,omitempty"`
		Data []boltFile `json:"data"`
	}
)

// typeName is the name of a type in metadata; none where there is one type of nodes and of edges.
func (j *job) typeName(name string) string {
	if len(j.s.Nodes) == 1 && len(j.s.Edges) == 1 {
		return ""
	}
	return name
}

// metadata writes metadata.yaml.
func (j *job) metadata(w io.Writer) error {
	m := boltMeta{Name: "khop", Tasks: j.boltTasks(), Features: []boltFeature{}}
	mapped := false
	feature := func(domain, owner, name string) {
		m.Features = append(m.Features, boltFeature{domain, boltFile{Name: name, Format: "numpy",
			Type: j.typeName(owner), InMemory: &mapped, Path: boltColumn(domain, owner, name)}})
	}
	for _, n := range j.s.Nodes {
		m.Graph.Nodes = append(m.Graph.Nodes, boltNodes{n.Count, j.typeName(n.Name)})
		for _, c := range n.Columns {
			feature("node", n.Name, c.Name)
		}
	}
	for t, e := range j.s.Edges {
		m.Graph.Edges = append(m.Graph.Edges, boltFile{Format: "numpy", Type: j.typeName(e.String()),
			Path: j.boltEdges(t) + ".npy"})
		for _, c := range j.s.EdgeColumns {
			feature("edge", e.String(), c.Name)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m)
}

// boltTasks returns a task for each number of splits of nodes: one, but where a dataset has several.
func (j *job) boltTasks() []boltTask {
	tasks := []boltTask{}
	classes, _ := strconv.Atoi(j.ds.Manifest().Provenance["classes"])
	for _, s := range j.splits() {
		if len(tasks) <= s.Index {
			tasks = append(tasks, boltTask{Name: splitName("node_classification", s.Index, ""), Classes: classes})
		}
		task := &tasks[len(tasks)-1]
		to := map[string]*[]boltSeed{"train": &task.Train, "val": &task.Val, "test": &task.Test}[s.Name]
		if to == nil {
			j.note("metadata.yaml does not name the split %q: GraphBolt knows train, validation and test", s.Name)
			continue
		}
		for _, set := range s.Seeds.Sets {
			name, loaded := j.s.Nodes[set.Type].Name, true
			file := func(part string) boltFile {
				return boltFile{Name: part, Format: "numpy", InMemory: &loaded,
					Path: boltSet(s, name) + "_" + part + ".npy"}
			}
			seeds := boltSeed{Type: j.typeName(name), Data: []boltFile{file("seeds")}}
			if _, ok := j.classes(set.Type); ok {
				seeds.Data = append(seeds.Data, file("labels"))
			}
			*to = append(*to, seeds)
		}
	}
	return tasks
}
