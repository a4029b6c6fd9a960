package gnn

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/integrations/gnn/internal/embed"
	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/sparse"
)

// mostModel bounds what a wrong file takes of memory.
const mostModel = 8 << 30

// readModel reads the model of a checkpoint, and whether it reads features whose rows sum to 1.
func readModel(path string) (m *network, normalise bool, err error) {
	text, err := wholefile.Read(path, mostModel)
	if err != nil {
		return nil, false, err
	}
	if m, normalise, err = modelOf(text); err != nil {
		return nil, false, fmt.Errorf("%s: %w: %w; name a file that khop train --checkpoint wrote", path, ErrCheckpoint,
			err)
	}
	return m, normalise, nil
}

func modelOf(text []byte) (*network, bool, error) {
	head, numbers, err := unwrap(text)
	if err != nil {
		return nil, false, err
	}
	_, words := wordsOf(head.Options)
	number := func(name string) int {
		n, wrong := strconv.Atoi(words[name])
		if err = cmp.Or(err, wrong); n < 1 || n > 1<<20 {
			err = cmp.Or(err, fmt.Errorf("its %s are %q", name, words[name]))
		}
		return n
	}
	opt := Options{Model: words["model"], Layers: number("layers"), Hidden: number("hidden"), Heads: number("heads")}
	if err != nil {
		return nil, false, err
	}
	have, elements := map[string]shape{}, 0
	for _, p := range head.Params {
		have[p.Name] = p
		if p.Rows < 1 || p.Cols < 1 || p.Rows > len(numbers)/p.Cols {
			return nil, false, fmt.Errorf("parameter %s is %d x %d", p.Name, p.Rows, p.Cols)
		}
		elements += p.Rows * p.Cols
	}
	const copies = 3 // itself and two moments
	first, last := have["0.weight"], fmt.Sprintf("%d.weight", opt.Layers-1)
	if opt.Model == "gin" {
		last += "2"
	}
	if opt.Layers > len(head.Params) || len(numbers) != copies*floatBytes*elements {
		return nil, false, fmt.Errorf("it has %d bytes of %d numbers, and %d layers", len(numbers), elements,
			opt.Layers)
	}
	m, err := newNetwork(first.Rows, have[last].Cols, opt, &budget{})
	if err != nil {
		return nil, false, err
	}
	for i, p := range m.params {
		if len(m.params) != len(head.Params) || head.Params[i] != (shape{p.Name, p.Rows, p.Cols}) {
			return nil, false, fmt.Errorf("its parameters are %v, which no model %q has", head.Params, opt.Model)
		}
	}
	return m, words["normalise"] == "true", m.take(numbers)
}

// inputs are the tables of what a layer sums or keeps of rows, and what makes them of these.
type inputs struct {
	names  []string
	widths []int
	of     func(p *sparse.Pool, x []float32, to [][]float32) error
}

// always returns the same inputs for each type of nodes.
func always(in inputs) func(int) inputs { return func(int) inputs { return in } }

// rowsLayer is a layer as what it makes of rows: inputs are what it makes of each row of nodes of a type before its
// sums, nil where that is the row itself; finish makes the layer's rows of own rows and sums.
type rowsLayer struct {
	inputs func(t int) inputs
	// sums says what nodes of a type sum of the tables of the inputs, which are by type, and which of them they read
	// themselves. before is a step that comes before, or nil.
	sums    func(t int, in [][]*embed.Table) (before *embed.Step, sums []embed.Relation, own []*embed.Table)
	alone   bool // it sums nothing
	attends bool // it reads no rows of nodes themselves but as attention does

	finish func(b *embed.Block, y []float32) error
	width  int
	at     int    // nodes that finish has at a time; 0: any number
	makes  []bool // types of nodes that it makes rows of; steps sets it
}

// rowsLayers returns the layers of a model, which compute as Forward does, in the usual ways.
func (m *network) rowsLayers() (all []*rowsLayer) {
	for i := range m.layers {
		l := &m.layers[i]
		act := activation(relu)
		switch {
		case i == len(m.layers)-1:
			act = same
		case m.kind == "gat":
			act = elu
		}
		r := &rowsLayer{width: l.out}
		atOut := m.way(i, false).sumsAtOut()
		switch m.kind {
		case "gcn":
			r.gcn(l, act, atOut)
		case "sage":
			r.sage(l, act, atOut)
		case "gin":
			r.gin(l, act, atOut, m.opt.Hidden)
		case "gat":
			r.gat(l, act)
		}
		all = append(all, r)
	}
	return all
}

// times writes rows x times a weight.
func times(p *sparse.Pool, y, x []float32, w *variable) error {
	n := len(x) / w.Rows
	return p.MatMul(tensor(y, n, w.Cols), tensor(x, n, w.Rows), w.tensor())
}

// activated adds a bias to rows, and applies an activation.
func activated(p *sparse.Pool, y []float32, bias *variable, f activation) error {
	a := &activate{x: &variable{Rows: len(y) / bias.Cols, Cols: bias.Cols, Data: y}, b: bias, f: f, factor: 1}
	return p.Split(int64(a.x.Rows), int64(rowSpan(bias.Cols)), func(lo, hi int64) { a.forward(int(lo), int(hi)) })
}

// added writes x + y to x.
func added(p *sparse.Pool, x, y []float32) error {
	return p.Split(int64(len(x)), span, func(lo, hi int64) { vector.Add(x[lo:hi], y[lo:hi], 1) })
}

// scratch returns memory for n floats, which a layer keeps.
func scratch(of *[]float32, n int) []float32 {
	if len(*of) < n {
		*of = make([]float32, n)
	}
	return (*of)[:n]
}

// productOf are rows times a weight.
func productOf(w *variable) func(int) inputs {
	return always(inputs{[]string{"product"}, []int{w.Cols}, func(p *sparse.Pool, x []float32, to [][]float32) error {
		return times(p, to[0], x, w)
	}})
}

func (r *rowsLayer) gcn(l *layer, act activation, atOut bool) {
	weight, bias := l.w["weight"], l.w["bias"]
	r.sums = func(t int, in [][]*embed.Table) (*embed.Step, []embed.Relation, []*embed.Table) {
		return nil, []embed.Relation{{Reduce: embed.Norm, Table: in[t][0], Loops: true}}, nil
	}
	if atOut {
		r.inputs = productOf(weight)
	}
	r.finish = func(b *embed.Block, y []float32) error {
		if atOut {
			copy(y, b.Sums[0])
		} else if err := times(b.Pool, y, b.Sums[0], weight); err != nil {
			return err
		}
		return activated(b.Pool, y, bias, act)
	}
}

func (r *rowsLayer) sage(l *layer, act activation, atOut bool) {
	weight, own, bias := l.w["weight"], l.w["own"], l.w["bias"]
	r.sums = func(t int, in [][]*embed.Table) (*embed.Step, []embed.Relation, []*embed.Table) {
		return nil, []embed.Relation{{Reduce: embed.Mean, Table: in[t][0]}}, in[t][len(in[t])-1:]
	}
	if atOut {
		of := func(p *sparse.Pool, x []float32, to [][]float32) error {
			if err := times(p, to[0], x, weight); err != nil {
				return err
			}
			return times(p, to[1], x, own)
		}
		r.inputs = always(inputs{[]string{"product", "own"}, []int{l.out, l.out}, of})
	}
	var room []float32
	r.finish = func(b *embed.Block, y []float32) error {
		self := b.Own[0]
		if atOut {
			copy(y, b.Sums[0])
		} else {
			if err := times(b.Pool, y, b.Sums[0], weight); err != nil {
				return err
			}
			self = scratch(&room, len(y))
			if err := times(b.Pool, self, b.Own[0], own); err != nil {
				return err
			}
		}
		if err := added(b.Pool, y, self); err != nil {
			return err
		}
		return activated(b.Pool, y, bias, act)
	}
}

func (r *rowsLayer) gin(l *layer, act activation, atOut bool, hidden int) {
	weight, bias, weight2, bias2 := l.w["weight"], l.w["bias"], l.w["weight2"], l.w["bias2"]
	r.sums = func(t int, in [][]*embed.Table) (*embed.Step, []embed.Relation, []*embed.Table) {
		return nil, []embed.Relation{{Reduce: embed.Sum, Table: in[t][0]}}, in[t][:1]
	}
	if atOut {
		r.inputs = productOf(weight)
	}
	var room []float32
	r.finish = func(b *embed.Block, y []float32) error {
		sum := b.Sums[0]
		if err := added(b.Pool, sum, b.Own[0]); err != nil {
			return err
		}
		if !atOut {
			h := scratch(&room, int(b.N)*hidden)
			if err := times(b.Pool, h, sum, weight); err != nil {
				return err
			}
			sum = h
		}
		if err := activated(b.Pool, sum, bias, relu); err != nil {
			return err
		}
		if err := times(b.Pool, y, sum, weight2); err != nil {
			return err
		}
		return activated(b.Pool, y, bias2, act)
	}
}

func (r *rowsLayer) gat(l *layer, act activation) {
	weight, source, target, bias, heads := l.w["weight"], l.w["source"], l.w["target"], l.w["bias"], l.heads
	of := func(p *sparse.Pool, x []float32, to [][]float32) error {
		if err := times(p, to[0], x, weight); err != nil {
			return err
		}
		n := len(to[1]) / heads
		at := &attention{heads: heads, width: l.out / heads, stride: l.out / heads,
			x: &variable{Rows: n, Cols: l.out, Data: to[0]}}
		return p.Split(int64(n), int64(rowSpan(l.out)), func(lo, hi int64) {
			at.project(to[1][:int(hi)*heads], source, int(lo))
			at.project(to[2][:int(hi)*heads], target, int(lo))
		})
	}
	r.inputs = always(inputs{[]string{"product", "score", "target"}, []int{l.out, heads, heads}, of})
	r.attend(&attends{edges: make([]graph.EdgeType, 1), heads: heads, width: l.out, loops: true})
	r.finish = func(b *embed.Block, y []float32) error {
		copy(y, b.Sums[0])
		return activated(b.Pool, y, bias, act)
	}
}
