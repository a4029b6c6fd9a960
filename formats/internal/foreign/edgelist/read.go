package edgelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
)

// IDs says what the ids in the text are.
type IDs uint8

// What ids can be.
const (
	Auto    IDs = iota // numbers or names, as the first lines say
	Numbers            // node numbers from 0, however far they reach
	Names              // any words; numbered as they first appear
)

// MaxLine is the greatest length of a line, in bytes.
const MaxLine = 1 << 20

// Options say how to read. The zero value finds everything out.
type Options struct {
	IDs IDs
	// Columns name the fields in order, instead of a header (a header line that there is, is skipped): src and dst, or
	// the first two, are the ids; "-" is not stored; "name:float32" sets the type (int8 .. int64, float32, float64).
	Columns []string
	// Header says whether the first line names the fields.
	Header Header
	// Null are fields that stand for missing values, of columns.
	Null []string
	// Nodes is the number of nodes if it is known from elsewhere, such as a feature table; 0: one more than the
	// greatest id.
	Nodes int64
	// Skips says how many bad lines may be left out; nil: none.
	Skips *source.Skips
	// Workers is how many goroutines parse; 0: one a core. Their number changes nothing that is read.
	Workers int
	// Budget is for names, edges and columns; nil: no limit.
	Budget   *source.Budget
	Progress formats.Progress
}

// Read reads an edge list. The caller closes the graph. Memory: about 8 MB, and 4 MB for each further worker; if ids
// are names, 24 to 32 bytes a name and the last megabytes of their text (see source.Texts); and what of edges and of
// each column has not moved to a temporary file (see source.Spool).
func Read(ctx context.Context, at source.Place, opt Options) (_ *source.Graph, err error) {
	f, err := source.OpenCounted(at.OpenText, opt.Budget.Ledger())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := source.Plain()
	r := &reader{path: f.Path, size: f.Size, opt: opt, nulls: source.NullSet(opt.Null),
		store: &source.EdgeStore{Spool: source.Spool{Budget: opt.Budget}}}
	g.Own(r.store)
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(), g.Close())
		}
	}()
	if err := r.readAll(ctx, f); err != nil {
		return nil, err
	}
	if err := r.finish(g); err != nil {
		return nil, err
	}
	return g, nil
}

// reader reads one file.
type reader struct {
	path    string
	size    int64 // of the text, or of what it is compressed to
	opt     Options
	nulls   map[string]bool // of Options.Null
	lay     *layout         // nil until the first lines have been seen
	store   *source.EdgeStore
	names   *source.Names // of nodes, if ids are names
	targets *source.Names // of nodes at the other end: the same, unless they are of another type
	most    [2]int64      // the greatest ids of sources and of targets, if these are of two types
	columns []*column
	yield   func(source.Batch) error // takes edges where they are not kept
}

// begin finds out the layout from a piece; there is none yet where it has no edge.
func (r *reader) begin(p *piece) error {
	lay, err := r.detect(p)
	if err != nil || lay == nil {
		return err
	}
	r.lay, p.start = lay, lay.skip
	r.start()
	return nil
}

// start makes room for what the layout names.
func (r *reader) start() {
	for i := range r.lay.columns {
		r.lay.columns[i].nulls = r.nulls
		c := &column{columnSpec: r.lay.columns[i]}
		c.spool.Budget = r.opt.Budget
		r.columns = append(r.columns, c)
	}
	r.most = [2]int64{-1, -1}
	if r.lay.names {
		r.names = source.NewNames(r.opt.Budget)
		r.targets = r.names
		if r.lay.twoTypes() {
			r.targets = source.NewNames(r.opt.Budget)
		}
	}
}

// close frees what was read, where it does not become a graph's.
func (r *reader) close() (err error) {
	for _, c := range r.columns {
		err = errors.Join(err, c.spool.Close())
	}
	if r.names != nil {
		err = errors.Join(err, r.names.Close())
	}
	if r.targets != r.names {
		err = errors.Join(err, r.targets.Close())
	}
	return err
}

func (r *reader) finish(g *source.Graph) error {
	_, greatest := r.store.Range()
	if greatest < 0 && r.opt.Nodes == 0 { // a header and nothing else, too
		return source.Error(r.path, "", -1, "an edge list has two ids a line", errors.New("there is no edge in it"))
	}
	node := g.Node()
	node.Count = greatest + 1
	switch {
	case r.lay != nil && r.lay.twoTypes():
		if err := r.finishTypes(g); err != nil {
			return err
		}
	case r.names != nil:
		node.Count = r.names.Len()
		if r.opt.Nodes > 0 && node.Count != r.opt.Nodes {
			return source.Error(r.path, "", -1,
				"give tables with a row for each name, in the order of first appearance",
				fmt.Errorf("it names %d nodes, but the tables have %d rows", node.Count, r.opt.Nodes))
		}
		g.Own(r.names)
		node.Strings = append(node.Strings, r.names.Strings("id"))
		change := source.Renumbered
		if r.opt.IDs == Names {
			change = source.Said
		}
		g.Tell(change, "id", node.Count,
			"ids are names: nodes are numbered as they first appear, their names are kept as \"id\"")
	case r.opt.Nodes > 0:
		node.Count = r.opt.Nodes
	case r.opt.IDs == Auto && source.TooSparse(greatest, r.store.Len()):
		return source.Error(r.path, "", -1, appearing(),
			fmt.Errorf("ids reach %d, but there are only %s", greatest,
				source.Counted(r.store.Len(), "edge", "edges")))
	default:
		node.Counted = true
	}
	if r.lay != nil && r.lay.types[0] != "" && !r.lay.twoTypes() {
		node.Name = r.lay.types[0]
	}
	return r.finishColumns(g)
}

// appearing says what to do where ids are far apart.
func appearing() *option.Text {
	return option.Textf("number them in order of appearance by %s names, or keep all these nodes by %[1]s numbers",
		option.Named("IDs"))
}

// finishColumns adds the edges and their columns.
func (r *reader) finishColumns(g *source.Graph) error {
	g.Edges.Count = r.store.Len()
	var data [][]byte
	var widths []int64
	for _, c := range r.columns {
		g.Own(&c.spool)
		if c.dropped != nil {
			g.Tell(source.LeftOut, c.name, g.Edges.Count, "%w", c.dropped)
			continue
		}
		col, bytes, err := c.finish(g)
		if err != nil {
			return err
		}
		g.Edges.Columns = append(g.Edges.Columns, col)
		data, widths = append(data, bytes), append(widths, col.RowBytes())
	}
	g.Edges.Each = source.Pairs(r.store.Each, data, widths)
	if r.lay != nil {
		g.Notes = append(g.Notes, r.lay.notes...)
	}
	return nil
}

// finishTypes makes the graph one of two node types.
func (r *reader) finishTypes(g *source.Graph) error {
	g.Nodes = []source.NodeType{{Name: r.lay.types[0], Count: r.most[0] + 1}, {Name: r.lay.types[1],
		Count: r.most[1] + 1}}
	g.Types = []source.EdgeType{{Source: 0, Relation: "edge", Target: 1}}
	for i, list := range []*source.Names{r.names, r.targets} {
		node := &g.Nodes[i]
		switch {
		case list != nil:
			g.Own(list)
			node.Count = list.Len()
			node.Strings = append(node.Strings, list.Strings("id"))
		case r.opt.IDs == Auto && source.TooSparse(r.most[i], r.store.Len()):
			return source.Error(r.path, "", -1, appearing(),
				fmt.Errorf("ids of %ss reach %d, but there are only %s", node.Name, r.most[i],
					source.Counted(r.store.Len(), "edge", "edges")))
		default:
			node.Counted = true
		}
	}
	return nil
}

// Reader reads edge lists.
var Reader = source.Reader{Name: "edgelist", Title: "an edge list",
	Options: []string{"columns", "ids", "skips", "tables", "header", "null"}, Find: findGraphs, Read: readGraph,
	Plan: plan}

// findGraphs takes any text that is named; among other files the first lines must be rows of as many fields.
func findGraphs(t *source.Tree) []string {
	return t.Beginning(func(head []byte) bool { return Looks(head) && (t.Single() || even(head)) })
}

// even reports whether the first lines have equally many fields, two or more.
func even(head []byte) bool {
	fields, delim, cut := 0, byte(0), cutFields{}
	lines := bytes.Split(head, []byte("\n"))
	for i, line := range lines {
		if skippable(line) || i == len(lines)-1 && i > 0 {
			continue
		}
		if delim == 0 {
			delim = delimiter(line)
		}
		f, err := cut.split(line, delim)
		if fields == 0 {
			fields = len(f)
		}
		if err != nil || len(f) != fields || len(f) < 2 {
			return false
		}
	}
	return fields > 0
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	opt, err := optionsOf(r)
	switch {
	case err != nil:
		return nil, err
	case r.Slice != nil:
		return readPart(ctx, at, opt, r.Slice)
	}
	return Read(ctx, at, opt)
}

// optionsOf returns what is asked for.
func optionsOf(r *source.Request) (opt Options, err error) {
	ids, ok := map[string]IDs{"": Auto, "auto": Auto, "numbers": Numbers, "names": Names}[r.IDs]
	if !ok {
		return opt, fmt.Errorf("%w: ids %q: must be auto, numbers or names", source.ErrOptions, r.IDs)
	}
	header, ok := map[string]Header{"": HeaderAuto, "auto": HeaderAuto, "yes": HeaderYes, "no": HeaderNo}[r.Header]
	if !ok {
		return opt, fmt.Errorf("%w: header %q: must be auto, yes or no", source.ErrOptions, r.Header)
	}
	return Options{IDs: ids, Header: header, Null: r.Null, Columns: r.Columns, Nodes: r.Nodes,
		Budget: r.Budget, Progress: r.Progress, Skips: r.Skips}, nil
}
