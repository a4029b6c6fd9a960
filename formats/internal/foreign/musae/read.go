package musae

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/khop-gnn/khop/formats/internal/foreign/edgelist"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// maxWidth is the greatest feature number that is taken, plus one.
const maxWidth = 1 << 20

// Read reads the collection in a folder, whose files begin with prefix. The caller closes the graph.
func Read(ctx context.Context, dir source.Place, prefix string, r *source.Request) (*source.Graph, error) {
	ledger := r.Budget.Ledger()
	t, err := readTarget(ctx, dir.In(prefix+"_target.csv"), ledger)
	if err != nil {
		return nil, err
	}
	g, err := edgelist.Read(ctx, dir.In(prefix+"_edges.csv"), edgelist.Options{IDs: edgelist.Numbers,
		Nodes: int64(len(t.labels)), Budget: r.Budget, Progress: r.Progress})
	if err != nil {
		return nil, err
	}
	g.Edges.Undirected = true
	if err := addFeatures(ctx, g, dir.In(prefix+"_features.json"), ledger); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	node := g.Node()
	node.SetLabels(t.labels)
	node.Strings = append(node.Strings, source.List("class", t.classes).OfOthers())
	for i, name := range t.otherNames {
		t.others[i].add(node, name)
	}
	if t.guessed && r.Label == "" {
		g.Tell(source.Guessed, t.class, node.Count,
			"the column %q is taken for the labels; %s says which it is", t.class, option.Named("Label"))
	}
	return g, nil
}

// target is the table of nodes, by node number.
type target struct {
	labels     []int64
	classes    []string // sorted
	class      string   // the column that they come from
	guessed    bool     // it is one of several that might be labels
	otherNames []string
	others     []cells
}

// row is a line of the table.
type row struct {
	line, id int64
	class    string // shared by all rows of it
	others   []string
}

// cells are those of a column of the table, by node number.
type cells []string

// add adds the column to the nodes: whole numbers, truths, numbers, or else text.
func (c cells) add(n *source.NodeType, name string) {
	if name == "page_name" {
		name = "name"
	}
	for _, as := range []struct {
		dtype unified.DType
		parse func(s string) (float64, error)
	}{{unified.Int64, func(s string) (float64, error) {
		v, err := strconv.ParseInt(s, 10, 53)
		return float64(v), err
	}},
		{unified.Uint8, func(s string) (float64, error) {
			return float64(max(0, slices.Index([]string{"False", "True"}, s))), notBool(s)
		}}, {unified.Float64, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }}} {
		data := make([]byte, as.dtype.Size()*int64(len(c)))
		if !slices.ContainsFunc(c, func(s string) bool { _, err := as.parse(s); return err != nil }) {
			for i, s := range c {
				x, _ := as.parse(s)
				as.dtype.Put(data[int64(i)*as.dtype.Size():], x)
			}
			n.Columns = append(n.Columns, source.Bytes(graph.Column{Name: name, DType: as.dtype}, data))
			return
		}
	}
	n.Strings = append(n.Strings, source.List(name, c))
}

func notBool(s string) error {
	if s != "True" && s != "False" {
		return strconv.ErrSyntax
	}
	return nil
}

// textBytes is what a string takes besides its characters, about.
const textBytes = 16

// rows are the lines of the table, in the order of the file.
type rows struct {
	ledger  *pinned.Ledger
	list    []row
	classes map[string]string // of each the one copy
}

// add adds a row, of which it copies the strings.
func (r *rows) add(x row) error {
	for _, s := range append([]string{x.class}, x.others...) {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%.40q is %w", s, graph.ErrText)
		}
	}
	class, known := r.classes[x.class]
	bytes := int64(0)
	for _, s := range x.others {
		bytes += int64(len(s)) + 3*textBytes // and a number of it
	}
	if !known {
		bytes += int64(len(x.class)) + 8*textBytes // in the map, too
	}
	if err := r.ledger.Take(pinned.Sources, bytes); err != nil {
		return err
	}
	if !known {
		class = strings.Clone(x.class)
		r.classes[class] = class
	}
	x.class = class
	for i, s := range x.others {
		x.others[i] = strings.Clone(s)
	}
	return source.Append(r.ledger, &r.list, x)
}

func readTarget(ctx context.Context, at source.Place, l *pinned.Ledger) (*target, error) {
	f, err := at.OpenText()
	if err != nil {
		return nil, err
	}
	path := f.Path
	defer f.Close()
	if err := f.Count(l); err != nil {
		return nil, err
	}
	paced := source.NewPaced(ctx, f)
	r := csv.NewReader(paced)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, source.Error(path, "", 1, "", err)
	}
	header = slices.Clone(header)
	id, class := slices.Index(header, "id"), -1
	if k := slices.Index(header, "new_id"); k >= 0 {
		id = k // of Twitch, whose "id" is that of the site
	}
	for _, n := range []string{"page_type", "ml_target", "target", "mature"} {
		class = max(class, slices.Index(header, n))
	}
	if id < 0 || class < 0 {
		return nil, source.Error(path, "", 1,
			"the header names a column id, and page_type, ml_target, target or mature",
			fmt.Errorf("the columns are %.200q", header))
	}
	all := rows{ledger: l, classes: map[string]string{}}
	for {
		paced.Next()
		rec, err := r.Read()
		if err == io.EOF {
			return all.target(path, header, id, class)
		}
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return nil, source.Error(path, "", int64(parse.Line), "", parse.Err)
		}
		if err != nil {
			return nil, source.Error(path, "", -1, "", err)
		}
		line, _ := r.FieldPos(0)
		x := row{line: int64(line), class: rec[class]}
		for i, cell := range rec {
			if i != id && i != class {
				x.others = append(x.others, cell)
			}
		}
		if x.id, err = strconv.ParseInt(rec[id], 10, 64); err != nil || x.id < 0 {
			return nil, source.Error(path, "id", x.line, "node numbers count from 0",
				fmt.Errorf("%.80q is not a node number", rec[id]))
		}
		if err := all.add(x); err != nil {
			return nil, source.Error(path, "", x.line, "", err)
		}
	}
}

// target numbers the classes and puts the rows in the order of their nodes.
func (r *rows) target(path string, header []string, id, class int) (*target, error) {
	n := int64(len(r.list))
	if n == 0 {
		return nil, source.Error(path, "", -1, "every node from 0 on must have a row",
			errors.New("the table has no rows"))
	}
	perNode := 8 + 8 + textBytes*int64(len(header)) // label, line, cells
	if err := r.ledger.Take(pinned.Sources, perNode*n); err != nil {
		return nil, source.Error(path, "", -1, "", err)
	}
	t, lines := &target{labels: make([]int64, n)}, make([]int64, n)
	t.class, t.guessed = header[class], header[class] == "mature"
	for i, name := range header {
		if i != id && i != class {
			t.otherNames, t.others = append(t.otherNames, name), append(t.others, make(cells, n))
		}
	}
	number := map[string]int64{}
	t.classes = slices.SortedFunc(maps.Keys(r.classes), compareClasses)
	for i, c := range t.classes {
		number[c] = int64(i)
	}
	for _, x := range r.list {
		switch {
		case x.id >= n:
			return nil, source.Error(path, "id", x.line, "every node from 0 on must have a row",
				fmt.Errorf("node %d, but there are %d rows", x.id, n))
		case lines[x.id] > 0:
			return nil, source.Error(path, "id", x.line, "", fmt.Errorf("node %d has a row already, at %d", x.id,
				lines[x.id]))
		}
		lines[x.id], t.labels[x.id] = x.line, number[x.class]
		for i, cell := range x.others {
			t.others[i][x.id] = cell
		}
	}
	r.ledger.Give(pinned.Sources, 8*n+int64(unsafe.Sizeof(row{}))*int64(cap(r.list))) // lines and rows
	r.list = nil
	return t, nil
}

// compareClasses orders numbers by value, else names byte by byte.
func compareClasses(a, b string) int {
	x, errX := strconv.ParseInt(a, 10, 64)
	y, errY := strconv.ParseInt(b, 10, 64)
	if errX == nil && errY == nil && x != y {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// addFeatures reads the lists of features and adds them as dense rows, made as they are written.
func addFeatures(ctx context.Context, g *source.Graph, at source.Place, b *pinned.Ledger) error {
	f, err := at.OpenText()
	if err != nil {
		return err
	}
	path, node := f.Path, g.Node()
	defer f.Close()
	if err := f.Count(b); err != nil {
		return err
	}
	if err := b.Take(pinned.Sources, (8+4+1)*node.Count); err != nil {
		return source.Error(path, "", -1, "", err)
	}
	l := &lists{path: path, ledger: b, paced: source.NewPaced(ctx, f),
		starts: make([]int64, node.Count), counts: make([]int32, node.Count), seen: make([]bool, node.Count)}
	if err := l.read(json.NewDecoder(l.paced)); err != nil {
		return err
	}
	if l.missing > 0 {
		g.Tell(source.Altered, "feature", l.missing, "%s missing from %s: features are then zeros",
			source.Counted(l.missing, "node is", "nodes are"), path)
	}
	if l.width == 0 {
		g.Note("%s holds no features", path)
		return nil
	}
	g.NoteDense(node.Count, l.width, int64(len(l.features)))
	c := graph.Column{Name: "feature", DType: unified.Float32, Shape: []int64{l.width}}
	node.Columns = append(node.Columns, source.Column{Column: c, Write: func(ctx context.Context, w io.Writer) error {
		return source.WriteRows(ctx, w, node.Count, l.width, func(i int64, row []float32) {
			for _, k := range l.features[l.starts[i] : l.starts[i]+int64(l.counts[i])] {
				row[k] = 1
			}
		})
	}})
	return nil
}

// lists are the features of each node, as a ragged table.
type lists struct {
	path     string
	ledger   *pinned.Ledger
	paced    *source.Paced // what is read
	features []int32
	starts   []int64
	counts   []int32
	seen     []bool
	width    int64
	missing  int64
}

// read reads {"node": [feature, ..], ..}.
func (l *lists) read(d *json.Decoder) error {
	fail := func(node string, err error) error {
		return source.Error(l.path, node, -1, "the file is an object of node numbers and lists of feature numbers", err)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fail("", errors.Join(errors.New("does not begin with {"), err))
	}
	l.missing = int64(len(l.seen))
	for l.paced.Next(); d.More(); l.paced.Next() {
		t, err := d.Token()
		if err != nil {
			return fail("", err)
		}
		key, _ := t.(string)
		v, err := strconv.ParseInt(key, 10, 64)
		if err != nil || v < 0 || v >= int64(len(l.seen)) {
			return fail(clip(key), fmt.Errorf("not a node number: there are %d nodes", len(l.seen)))
		}
		if l.seen[v] {
			return fail(key, errors.New("the node has a list already"))
		}
		l.seen[v], l.starts[v] = true, int64(len(l.features))
		l.missing--
		if err := l.readList(d); err != nil {
			return fail(key, err)
		}
		l.counts[v] = int32(int64(len(l.features)) - l.starts[v])
	}
	if _, err := d.Token(); err != nil {
		return fail("", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fail("", errors.Join(errors.New("something follows the closing }"), err))
	}
	return nil
}

// readList reads the features of one node.
func (l *lists) readList(d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(errors.New("is not a list"), err)
	}
	for i := 0; d.More(); i++ {
		l.paced.Next()
		var k int64
		if err := d.Decode(&k); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if k < 0 || k >= maxWidth {
			return fmt.Errorf("entry %d: feature %d is not in 0 .. %d", i, k, maxWidth-1)
		}
		l.width = max(l.width, k+1)
		if err := source.Append(l.ledger, &l.features, int32(k)); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func clip(s string) string { return s[:min(len(s), 40)] }

// Reader reads MUSAE collections.
var Reader = source.Reader{Name: "musae", Title: "a MUSAE collection: edges, ragged features and a target table",
	Options: []string{"tables"}, Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		if dir := path.Dir(name); !t.Single() && prefix(t.At(dir), name) != "" {
			found = append(found, dir)
		}
	}
	return found
}

// prefix returns what the names of a collection's files begin with, such as "facebook", if a file is one of its edges.
func prefix(dir source.Place, edges string) string {
	p, ok := strings.CutSuffix(path.Base(edges), "_edges.csv")
	if ok && path.Dir(edges) == dir.Name && dir.In(p+"_target.csv").Exists() && dir.In(p+"_features.json").Exists() {
		return p
	}
	return ""
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	for _, name := range at.Tree.Files() {
		if p := prefix(at, name); p != "" {
			return Read(ctx, at, p, r)
		}
	}
	return nil, source.Error(at.Path(), "", -1, "name a directory with X_edges.csv, X_features.json and X_target.csv",
		source.ErrUnknown)
}
