package lsc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/arrays"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/foreign/torch"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads MAG240M and IGB.
var Reader = source.Reader{Name: "lsc", Title: "MAG240M or IGB: folders of arrays, named by types",
	Find: findGraphs, Read: readGraph}

// edgesFile is the array in a folder of edges.
const edgesFile = "edge_index.npy"

// edgeType reads the name of a folder of edges.
func edgeType(dir string) (t [3]string, ok bool) {
	for _, by := range []string{"___", "__"} {
		if f := strings.Split(path.Base(dir), by); len(f) == 3 && !slices.Contains(f, "") {
			return [3]string(f), path.Base(path.Dir(dir)) != "edges" // of package arrays
		}
	}
	return t, false
}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if dir := path.Dir(name); path.Base(name) == edgesFile {
			if _, ok := edgeType(dir); ok && !slices.Contains(found, path.Dir(dir)) {
				found = append(found, path.Dir(dir))
			}
		}
	}
	return found
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	counts, err := readCounts(at.Beside("meta.pt"), r)
	if err != nil {
		return nil, err
	}
	folders := map[string]map[string]source.Place{}
	for _, name := range at.Tree.Files() {
		dir := path.Dir(name)
		if stem, ok := strings.CutSuffix(path.Base(name), ".npy"); ok && path.Dir(dir) == at.Name {
			if folders[dir] == nil {
				folders[dir] = map[string]source.Place{}
			}
			folders[dir][stem] = at.Tree.At(name)
		}
	}
	var nodes []arrays.Nodes
	var edges []arrays.Edges
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		set := newSet(folders[dir])
		if t, ok := edgeType(dir); ok {
			edges = append(edges, arrays.Edges{Source: t[0], Relation: t[1], Target: t[2], Set: set})
			continue
		}
		count := int64(-1)
		if n, ok := counts[path.Base(dir)]; ok {
			count = n
		}
		nodes = append(nodes, arrays.Nodes{Name: path.Base(dir), Count: count, Set: set})
	}
	nodes = arrays.WithEnds(nodes, edges)
	for i := range nodes {
		if n, ok := counts[nodes[i].Name]; ok {
			nodes[i].Count = n
		}
	}
	g, err := arrays.Typed(ctx, nodes, edges, r)
	if err != nil {
		return nil, source.Error(at.Path(), "", -1, "", err)
	}
	if err := readSplits(g, at.Beside("split_dict.pt"), r); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// readDict reads a dictionary that torch.save has written; nothing where the file is not there.
func readDict(at source.Place, r *source.Request, each func(f *torch.File, key string, v any) error) (err error) {
	if !at.Exists() {
		return nil
	}
	f, err := torch.Open(at, r.Budget)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d, ok := f.Value.(*pickle.Dict)
	if !ok {
		return source.Error(at.Path(), "", -1, "", fmt.Errorf("it is %s, not a dictionary", pickle.Describe(f.Value)))
	}
	for i, k := range d.Keys {
		if name, ok := k.(string); ok {
			if err := each(f, name, d.Values[i]); err != nil {
				return source.Error(at.Path(), "", -1, "", fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	return nil
}

// readCounts reads the numbers of nodes by type.
func readCounts(at source.Place, r *source.Request) (map[string]int64, error) {
	counts := map[string]int64{}
	return counts, readDict(at, r, func(_ *torch.File, key string, v any) error {
		n, ok := v.(int64)
		if ok && n < 0 {
			return fmt.Errorf("%d is not a count", n)
		}
		if ok {
			counts[key] = n
		}
		return nil
	})
}

// splits are the names that splits have; the halves of "test-whole" are left out.
var splits = map[string]string{"train": "train", "valid": "val", "test-whole": "test", "test": "test"}

// readSplits adds the splits of the node type that has labels.
func readSplits(g *source.Graph, at source.Place, r *source.Request) error {
	labelled := slices.IndexFunc(g.Nodes, func(n source.NodeType) bool { return n.Classes > 0 })
	if labelled < 0 {
		return nil
	}
	nodes := g.Nodes[labelled].Count
	return readDict(at, r, func(f *torch.File, key string, v any) error {
		name, ok := splits[key]
		if !ok {
			g.Tell(source.LeftOut, key, 1, "the split %q is not stored", key)
			return nil
		}
		t, ok, err := f.Tensor(v)
		if err != nil || !ok || len(t.Shape) != 1 {
			return errors.Join(fmt.Errorf("it is %s, not a list of nodes", pickle.Describe(v)), err)
		}
		ids, err := t.Reader(false)
		if err != nil {
			return err
		}
		s := source.Split{Name: name, NodeType: labelled}
		if s.IDs, err = ids.AllInts(r.Budget.Ledger()); err != nil {
			return err
		}
		if i := slices.IndexFunc(s.IDs, func(id int64) bool { return id < 0 || id >= nodes }); i >= 0 {
			return fmt.Errorf("%d is not a node: there are %d", s.IDs[i], nodes)
		}
		g.Splits = append(g.Splits, s)
		return nil
	})
}

// newSet returns the arrays of a folder. Those of nodes may have no header.
func newSet(at map[string]source.Place) array.Set {
	if p, ok := at["node_label_19"]; ok && at["node_label"].Tree == nil {
		at["node_label"] = p
		delete(at, "node_label_19")
	}
	set := arrays.Files(at)
	for name, m := range set {
		if strings.HasPrefix(name, "node_") {
			set[name] = array.Member{Path: m.Path, Open: func() (*array.Reader, io.Closer, error) {
				head, err := at[name].Head()
				if err != nil {
					return nil, nil, err
				}
				if bytes.HasPrefix(head, []byte("\x93NUMPY")) {
					return m.Open()
				}
				return openRaw(name, at[name])
			}}
		}
	}
	return set
}

// openRaw opens a file of float32 without a header.
func openRaw(name string, at source.Place) (*array.Reader, io.Closer, error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, nil, err
	}
	width := int64(1)
	if name == "node_feat" {
		width = 1024
	}
	rows := raw.Size / (4 * width)
	shape := []int64{rows, width}[:1+min(width-1, 1)]
	h, err := array.New(unified.Float32, shape, false, false)
	if err == nil && rows*4*width != raw.Size {
		err = fmt.Errorf("it has no header, and its %d bytes are no rows of %d float32", raw.Size, width)
	}
	var r *array.Reader
	if err == nil {
		if mem, failed := raw.Map(); failed == nil && mem != nil {
			r, err = array.NewMapped(mem, h)
		} else {
			r, err = array.NewReader(io.NewSectionReader(raw, 0, raw.Size), h)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(source.Error(raw.Path, "", -1, "write it by numpy.save", err), raw.Close())
	}
	return r, raw, nil
}
