package gnn

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// ErrChanges is returned for Changes that cannot be made: nothing has changed then.
var ErrChanges = embed.ErrChange

// ErrRows is returned for rows that layers cannot make, or that are not there.
var ErrRows = embed.ErrRows

// ErrJournal is returned for a journal of changes that is damaged, is of another dataset or model, or is in use.
var ErrJournal = embed.ErrLog

// LiveOptions say whose rows a Live has, and how. Fields mean what those of EmbedOptions do; where these are left out,
// rows are float32, of the last layer.
type LiveOptions struct {
	Checkpoint         string
	Layers, Name, Type string
	Rows               func(layer int, nodes string, own []float32, sums map[string][]float32, y []float32) error
	Workers            int
	MaxMemory          int64  // 0: half of what is free
	Journal            string // folder of the changes that were acknowledged; "": beside the dataset, DATASET.khop-live
	Tuning             *sparse.Tuning
	Progress           func(step string, done, total int64)

	files bool // see embed.LiveOptions
}

// NodeRows are rows of features of nodes of a type ("": the only one). Ids are own ids. Those from the number of nodes
// on are new nodes, in any order and without holes. Rows has one row behind the other, as wide as the type's features;
// it is empty for a type that has none. Features that are stored as float32 or in 16 bits can change, in 16 bits to
// numbers that are exactly those.
type NodeRows struct {
	Type string
	IDs  []int64
	Rows []float32
}

// EdgeList is edges of a type ("": the only one; else its relation, or source:relation:target), by own ids.
type EdgeList struct {
	Edges    string
	Src, Dst []int64
}

// Changes are made at once: first Remove, then Add. Several equal edges are several; Remove takes as many of them away
// as it names. Nodes do not go, since ids would move: remove the edges of a node instead.
type Changes struct {
	Features    []NodeRows
	Add, Remove []EdgeList
}

// LiveReport is what Apply came to.
type LiveReport struct {
	Generation uint64     `json:"generation"`
	Nodes      int64      `json:"nodes"`        // that have rows now
	Rows       int64      `json:"feature_rows"` // of features, that were given
	Edges      int64      `json:"edges"`        // that were added or removed
	Steps      []LiveStep `json:"steps"`
	EdgesRead  int64      `json:"edges_read"`
	Seconds    float64    `json:"seconds"`
	Journal    int64      `json:"journal_bytes"`
}

// LiveStep is a step, and how many of its rows were made again.
type LiveStep struct {
	Step string `json:"step"`
	Rows int64  `json:"rows"`
}

// Live has rows for all nodes of a type, which follow changes of the graph and its features: after each Apply they have
// the bytes of Embed over a dataset with all changes. Apply makes rows again, of all of their edges, which the changes
// reach; it adds no differences. Layers of one's own (LiveOptions.Rows) have the same bytes as far as their function
// gives a row the same bytes in any block: blocks are of up to 4,096 of the nodes that are reached, so that torch,
// whose rounding depends on a row's place, may differ in last bits.
//
// Edges are in memory, and features and the rows of all layers, too, where MaxMemory has room for them and for a copy
// of those that a change makes again; else these are in files of the journal's folder that go with the process. Changes
// are in a journal, which one process has open at a time: Apply returns when they are on its disk. OpenLive reads
// dataset and journal. Neither changes the dataset.
//
// All methods are safe for concurrent use. Apply and Compact wait for each other; Rows does not wait for them.
type Live struct {
	l      *embed.Live
	schema *graph.Schema
	steps  []string
	widths []int // of features, by type of nodes
}

// OpenLive opens the rows of all nodes of the dataset at dir, in the state of its journal, which is begun where there
// is none. It reads the whole dataset, which it compares with its checksums, and computes all rows once.
//
// Errors are those of Embed, pinned.ErrLimit where MaxMemory is too little, and ErrJournal.
func OpenLive(ctx context.Context, dir string, opt LiveOptions) (*Live, error) {
	e := &embedding{dir: dir, opt: EmbedOptions{Checkpoint: opt.Checkpoint, Layers: opt.Layers, Name: opt.Name,
		Type: opt.Type, Rows: opt.Rows, Workers: opt.Workers, MaxMemory: opt.MaxMemory, Progress: opt.Progress,
		Force: true}} // no column is written
	defer e.close()
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	g := e.ds.Graph()
	inputs, err := e.inputs(g)
	if err != nil {
		return nil, err
	}
	if err := e.verify(ctx); err != nil {
		return nil, err
	}
	l, err := embed.OpenLive(ctx, e.p, inputs, embed.LiveOptions{Folder: cmp.Or(opt.Journal, e.dir+".khop-live"),
		Dataset: fmt.Sprintf("%x", e.ds.ID()), Memory: opt.MaxMemory, Workers: opt.Workers, Tuning: opt.Tuning,
		Files: opt.files, Progress: opt.Progress})
	if err != nil {
		return nil, err
	}
	live := &Live{l: l, schema: g.Schema()}
	for i := range inputs {
		live.widths = append(live.widths, inputs[i].Width)
	}
	for _, s := range e.p.Steps {
		live.steps = append(live.steps, s.Name)
	}
	return live, nil
}

// inputs describes the features of each type of nodes.
func (e *embedding) inputs(g *graph.Graph) ([]embed.Input, error) {
	all := make([]embed.Input, len(g.Schema().Nodes))
	for t := range all {
		in := &all[t]
		column, has := g.NodeRole(t, graph.Feature)
		if !has {
			continue
		}
		c := featureColumn(g, t)
		in.Width, in.Stored = int(c.Numbers().Width()), column.DType()
		switch {
		case c.Code != nil:
			in.Fixed = c.Code.Name
		case in.Stored != unified.Float32 && !in.Stored.IsHalf():
			in.Fixed = in.Stored.String()
		}
		if in.Table = e.x[t]; in.Table != nil {
			in.Normalise = in.Table.Normalise
		}
	}
	return all, nil
}

// Apply makes changes, and returns when the journal has them on its disk and Rows gives the rows that they lead to, a
// new generation. It reads c until it returns. Changes without rows and edges are a generation, too. After any error
// nothing has changed, and the generation is the old one: ErrChanges for changes that cannot be made, those of ctx, of
// layers, and of the disk. When nobody knows what a failed disk has written, all that follow are refused (ErrJournal)
// until the journal is opened again.
func (l *Live) Apply(ctx context.Context, c *Changes) (*LiveReport, error) {
	change, err := l.change(c)
	if err != nil {
		return nil, err
	}
	of, err := l.l.Apply(ctx, change)
	if err != nil {
		return nil, err
	}
	r := &LiveReport{Generation: of.Generation, Nodes: of.Nodes, Rows: of.Rows, Edges: of.Edges,
		EdgesRead: of.EdgesRead, Seconds: of.Seconds, Journal: of.LogBytes}
	for k, name := range l.steps {
		r.Steps = append(r.Steps, LiveStep{name, of.Made[k]})
	}
	return r, nil
}

// change finds the types that changes name.
func (l *Live) change(c *Changes) (*embed.Change, error) {
	to := &embed.Change{}
	for _, one := range c.Features {
		t, err := l.nodeType(one.Type)
		if err != nil {
			return nil, err
		}
		to.Rows = append(to.Rows, embed.ChangedRows{Type: t, IDs: one.IDs, Rows: one.Rows})
	}
	var err error
	edges := func(all []EdgeList) (to []embed.ChangedEdges) {
		for _, one := range all {
			e, wrong := l.edgeType(one.Edges)
			err = errors.Join(err, wrong)
			to = append(to, embed.ChangedEdges{Edges: e, Src: one.Src, Dst: one.Dst})
		}
		return to
	}
	to.Remove, to.Add = edges(c.Remove), edges(c.Add)
	return to, err
}

func (l *Live) nodeType(name string) (int, error) {
	if name == "" && len(l.schema.Nodes) == 1 {
		return 0, nil
	}
	if t := l.schema.NodeType(name); t >= 0 {
		return t, nil
	}
	var names []string
	for i := range l.schema.Nodes {
		names = append(names, l.schema.Nodes[i].Name)
	}
	return 0, fmt.Errorf("%w: features: there are no nodes of type %q: name one of %q", ErrChanges, name, names)
}

func (l *Live) edgeType(name string) (int, error) {
	if name == "" && len(l.schema.Edges) == 1 {
		return 0, nil
	}
	e, err := l.schema.EdgeType(name)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrChanges, err)
	}
	return e, nil
}

// Rows writes the last layer's rows of nodes to to, one behind the other, and returns the generation of all of them. to
// has Width numbers a node. It may run while Apply does, and gives rows of one generation.
func (l *Live) Rows(to []float32, nodes []int64) (generation uint64, err error) {
	return l.l.Rows(to, nodes)
}

// Generation is the number of changes since the journal was begun.
func (l *Live) Generation() uint64 {
	generation, _, _ := l.l.State()
	return generation
}

// Nodes is how many nodes have rows.
func (l *Live) Nodes() int64 {
	_, nodes, _ := l.l.State()
	return nodes
}

// Width is how many numbers a row has.
func (l *Live) Width() int {
	_, _, width := l.l.State()
	return width
}

// InFiles reports whether features and rows are in files, since MaxMemory has no room for them.
func (l *Live) InFiles() bool { return l.l.InFiles() }

// FeatureWidth returns how many numbers a row of features has of nodes of a type ("": the only one); 0 without
// features.
func (l *Live) FeatureWidth(nodes string) (int, error) {
	t, err := l.nodeType(nodes)
	if err != nil {
		return 0, err
	}
	return l.widths[t], nil
}

// Compact makes all changes of the journal one, so that it is as large as what differs from the dataset. A journal that
// was being replaced when the process was killed is the old one.
func (l *Live) Compact(ctx context.Context) error { return l.l.Compact(ctx) }

// Close frees memory and journal, which stays. Rows and Apply are errors then.
func (l *Live) Close() error { return l.l.Close() }
