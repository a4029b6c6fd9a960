package ogb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads datasets of the Open Graph Benchmark.
var Reader = source.Reader{Name: "ogb", Title: "a dataset of the Open Graph Benchmark: raw, split, mapping",
	Options: []string{"tables"}, Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) (found []string) {
	if t.Single() {
		return nil
	}
	for _, name := range t.Files() {
		dir, file := path.Split(name)
		if dir = path.Clean(dir); path.Base(dir) != "raw" || !strings.HasPrefix(file, "num-node-list.csv") {
			continue
		}
		if at := t.At(path.Dir(dir)); table(at, "raw/edge.csv").Exists() {
			found = append(found, at.Name)
		}
	}
	for _, name := range t.Files() {
		dir, file := path.Split(name)
		at := t.At(path.Dir(path.Clean(dir)))
		if path.Base(path.Clean(dir)) == "raw" && (strings.HasPrefix(file, "num-node-dict.csv") &&
			table(at, triplets).Exists() || file == binaryGraph && len(at.Tree.Files()) > 1) {
			found = append(found, at.Name)
		}
	}
	if len(found) == 0 {
		found = findProcessed(t)
	}
	return found
}

// table returns the place of a table, which may be compressed.
func table(at source.Place, name string) source.Place {
	if p := at.In(name); p.Exists() {
		return p
	}
	return at.In(name + ".gz")
}

// undirected are the datasets whose edges OGB doubles when it reads them.
var undirected = []string{"ogbn-products", "ogbn-proteins", "ogbl-ppa", "ogbl-collab", "ogbl-ddi"}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	switch {
	case table(at, "raw/num-node-dict.csv").Exists():
		return readTyped(ctx, at, r)
	case at.In("raw/" + binaryGraph).Exists():
		return readBinary(ctx, at, r)
	case !table(at, "raw/num-node-list.csv").Exists():
		return readProcessed(ctx, at, r)
	}
	nodes, err := single(ctx, table(at, "raw/num-node-list.csv"), r)
	if err != nil {
		return nil, err
	}
	g, err := edgelist.Read(ctx, table(at, "raw/edge.csv"), edgelist.Options{IDs: edgelist.Numbers, Nodes: nodes,
		Budget: r.Budget, Progress: r.Progress})
	if err != nil {
		return nil, err
	}
	defer source.CloseOnError(&err, g)
	if p := table(at, "raw/num-edge-list.csv"); p.Exists() {
		n, err := single(ctx, p, r)
		if err != nil {
			return nil, err
		}
		if n != g.Edges.Count {
			return nil, source.Error(p.Path(), "", 1, "", fmt.Errorf("there are %d edges in the table, not %d",
				g.Edges.Count, n))
		}
	}
	d := &dataset{g: g, at: at, r: r, nodes: nodes}
	d.direction()
	if err := source.Steps(ctx, d.features, d.labels, d.splits, d.names); err != nil {
		return nil, err
	}
	return g, nil
}

// dataset is one being read.
type dataset struct {
	g     *source.Graph
	at    source.Place
	r     *source.Request
	nodes int64
	node  int    // index of the node type at hand
	typ   string // its name, where there are several; "" where not
}

// file is a table of the node type at hand.
func (d *dataset) file(name string) source.Place {
	if d.typ == "" {
		return table(d.at, "raw/"+name+".csv")
	}
	return table(d.at, "raw/"+name+"/"+d.typ+"/"+name+".csv")
}

// direction decides by the dataset's name whether edges go both ways.
func (d *dataset) direction() {
	name := path.Base(strings.ReplaceAll(d.at.Path(), "\\", "/"))
	name = strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "-plus")
	d.g.Edges.Undirected = slices.Contains(undirected, name)
}

// single reads the one number of a table.
func single(ctx context.Context, at source.Place, r *source.Request) (int64, error) {
	var v []int64
	err := rows(ctx, at, r, func(_ int64, f [][]byte) error {
		n, err := integer(f[0])
		v = append(v, n)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, source.Error(at.Path(), "", -1, "convert datasets of one graph",
			fmt.Errorf("there are %d graphs in it: one is wanted", len(v)))
	}
	return v[0], nil
}

// features adds the features of nodes, as float32.
func (d *dataset) features(ctx context.Context) error {
	p := d.file("node-feat")
	if !p.Exists() {
		return nil
	}
	spool := &source.Spool{Budget: d.r.Budget}
	d.g.Own(spool)
	width, n, err := floats(ctx, p, d.r, spool)
	if err != nil {
		return err
	}
	if n != d.nodes {
		return source.Error(p.Path(), "", -1, "", fmt.Errorf("there are %d rows, but %d nodes", n, d.nodes))
	}
	if width == 0 {
		return nil
	}
	data, err := spool.Bytes()
	if err != nil {
		return err
	}
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{width}}
	d.g.Nodes[d.node].Columns = append(d.g.Nodes[d.node].Columns, source.Bytes(c, data))
	return nil
}

// labels adds the labels of nodes: one class each, or a row of numbers.
func (d *dataset) labels(ctx context.Context) error {
	p := d.file("node-label")
	if !p.Exists() {
		return nil
	}
	var labels []int64
	width := 0
	err := rows(ctx, p, d.r, func(_ int64, f [][]byte) (err error) {
		if width == 0 {
			width = len(f)
		}
		if len(f) != width {
			return fmt.Errorf("the row has %d numbers, not %d", len(f), width)
		}
		for _, x := range f {
			v, err := integer(x)
			if err != nil {
				return err
			}
			if err := source.Append(d.r.Budget.Ledger(), &labels, v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if int64(len(labels)) != d.nodes*int64(width) || width == 0 {
		return source.Error(p.Path(), "", -1, "", fmt.Errorf("there are %d labels, but %d nodes", len(labels), d.nodes))
	}
	c := graph.Column{Name: "label", DType: unified.Int64}
	if width > 1 {
		c.Shape = []int64{int64(width)}
	} else {
		d.g.Nodes[d.node].Classes = source.Classes(labels)
	}
	d.g.Nodes[d.node].Columns = append(d.g.Nodes[d.node].Columns, source.Bytes(c, unified.FromSlice(labels).Bytes()))
	return nil
}

// names adds the second column of a table of mapping/ that has a row for each node.
func (d *dataset) names(ctx context.Context) error {
	for _, name := range d.at.Tree.Files() {
		dir, file := path.Split(name)
		if path.Clean(dir) != d.at.In("mapping").Name || !strings.HasPrefix(file, "nodeidx2") {
			continue
		}
		texts := &source.Texts{Budget: d.r.Budget}
		d.g.Own(texts)
		header := true
		err := rows(ctx, d.at.Tree.At(name), d.r, func(line int64, f [][]byte) error {
			if header {
				header = false
				return nil
			}
			if v, err := integer(f[0]); err != nil || v != texts.Len() || len(f) < 2 {
				return errors.New("the rows are not those of the nodes from 0 on, in order")
			}
			return texts.Append(bytes.Join(f[1:], []byte{','}))
		})
		if err != nil {
			return err
		}
		if texts.Len() == d.nodes {
			d.g.Nodes[d.node].Strings = append(d.g.Nodes[d.node].Strings, texts.Strings("id"))
		}
		return nil
	}
	return nil
}
