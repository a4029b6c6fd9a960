package triples

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/lines"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/names"
	"github.com/khop-gnn/khop/unified"
)

// Reader reads knowledge graphs.
var Reader = source.Reader{Name: "triples", Title: "a knowledge graph: train, valid and test of head, relation, tail",
	Options: []string{"relations"}, Find: findGraphs, Read: readGraph}

// parts are the files of a knowledge graph, by the names that collections give them, with the split that each is.
var parts = []struct {
	split string
	names []string
}{{"train", []string{"train"}}, {"val", []string{"valid", "val", "dev"}}, {"test", []string{"test"}}}

// files returns the files of a folder that make a knowledge graph, in the order of parts; nil where there is none.
func files(dir source.Place) (found []source.Place) {
	for i, p := range parts {
		var at source.Place
		for _, name := range p.names {
			for _, ext := range []string{".txt", ".tsv", ".txt.gz", ".tsv.gz"} {
				if f := dir.In(name + ext); at.Tree == nil && f.Exists() && looks(f) {
					at = f
				}
			}
		}
		if i == 0 && at.Tree == nil {
			return nil
		}
		found = append(found, at)
	}
	return found
}

// looks reports whether the first lines of a file have three fields, separated by tabs.
func looks(at source.Place) bool {
	head, err := at.Head()
	if err != nil {
		return false
	}
	lines := bytes.Split(head, []byte("\n"))
	for i, line := range lines {
		if i == len(lines)-1 || len(bytes.TrimSpace(line)) == 0 {
			break
		}
		if bytes.Count(line, []byte("\t")) != 2 {
			return false
		}
	}
	return len(lines) > 1
}

func findGraphs(t *source.Tree) (found []string) {
	if t.Single() {
		return nil
	}
	for _, name := range t.Files() {
		if strings.HasPrefix(path.Base(name), "train.") && files(t.At(path.Dir(name))) != nil {
			found = append(found, path.Dir(name))
		}
	}
	return found
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (_ *source.Graph, err error) {
	list := files(at)
	if list == nil {
		return nil, source.Error(at.Path(), "", -1, "name a folder or archive with train.txt, valid.txt, test.txt",
			source.ErrUnknown)
	}
	g := source.Plain()
	d := &reader{g: g, r: r, nodes: source.NewNames(r.Budget), relations: source.NewNames(r.Budget),
		listed: source.NewListing(r.Budget, 4)}
	for _, c := range []interface{ Close() error }{d.nodes, d.relations, d.listed} {
		g.Own(c)
	}
	defer source.CloseOnError(&err, g)
	for i, f := range list {
		if f.Tree == nil {
			g.Tell(source.Guessed, parts[i].names[0], 1, "there is no file of %s triples", parts[i].names[0])
			continue
		}
		if err := d.read(ctx, f, parts[i].split); err != nil {
			return nil, err
		}
	}
	return g, d.finish()
}

// reader is a knowledge graph being read.
type reader struct {
	g         *source.Graph
	r         *source.Request
	nodes     *source.Names
	relations *source.Names
	listed    *source.Listing // with relations, int32
}

func (d *reader) read(ctx context.Context, at source.Place, split string) error {
	link := source.Link{Name: split}
	err := lines.Each(ctx, at, d.r, "a line is a head, a relation and a tail, separated by tabs",
		func(_ int64, text []byte) error {
			if len(text) == 0 {
				return nil
			}
			return d.triple(text, split == "train", &link)
		})
	if err != nil {
		return err
	}
	if split != "train" {
		d.g.Links = append(d.g.Links, link)
		return nil
	}
	return d.listed.Flush()
}

// triple takes a line.
func (d *reader) triple(text []byte, edge bool, link *source.Link) error {
	f := bytes.Split(text, []byte("\t"))
	if len(f) != 3 || len(f[0]) == 0 || len(f[1]) == 0 || len(f[2]) == 0 {
		return fmt.Errorf("there are %d fields, or one is empty", len(f))
	}
	head, err := d.nodes.Number(f[0])
	if err != nil {
		return err
	}
	rel, err := d.relations.Number(f[1])
	if err != nil {
		return err
	}
	if rel >= graph.MaxEdgeTypes {
		return fmt.Errorf("there are more than %d relations", graph.MaxEdgeTypes)
	}
	tail, err := d.nodes.Number(f[2])
	if err != nil {
		return err
	}
	if !edge {
		return link.Append(d.r.Budget.Ledger(), head, tail, rel)
	}
	d.listed.Add(head, tail, uint64(rel))
	if d.listed.Full() {
		return d.listed.Flush()
	}
	return nil
}

func (d *reader) finish() error {
	g := d.g
	pairs, err := d.listed.Each()
	if err != nil {
		return err
	}
	g.Node().Count = d.nodes.Len()
	g.Node().Strings = append(g.Node().Strings, d.nodes.Strings("id"), d.relations.Strings("relation").OfOthers())
	g.Edges.Count = d.listed.Len()
	if !d.r.RelationsAsTypes {
		g.Edges.Columns = []graph.Column{{Name: "relation", DType: unified.Int32}}
		g.Edges.Each = pairs
		g.Note("%d relations: the column \"relation\" of each edge, the labels of links", d.relations.Len())
		return nil
	}
	g.Types = nil
	seen := map[string]bool{}
	for i := range d.relations.Len() {
		name := typeName(string(d.relations.At(i)))
		for seen[name] {
			name += "_"
		}
		seen[name] = true
		g.Types = append(g.Types, source.EdgeType{Relation: name})
	}
	if len(g.Types) == 0 {
		g.Types = []source.EdgeType{{Relation: "edge"}}
	}
	var types []uint16
	g.Edges.Each = func(yield func(source.Batch) error) error {
		return pairs(func(b source.Batch) error {
			types = types[:0]
			for c := b.Columns[0]; len(c) > 0; c = c[4:] {
				types = append(types, binary.LittleEndian.Uint16(c))
			}
			return yield(source.Batch{Src: b.Src, Dst: b.Dst, Types: types})
		})
	}
	for i := range g.Links {
		g.Links[i].Types, g.Links[i].Labels = g.Links[i].Labels, nil
	}
	return nil
}

// typeName makes a relation a name.
func typeName(s string) string {
	if s = names.Clean(s); len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "")
	}
	return s
}
