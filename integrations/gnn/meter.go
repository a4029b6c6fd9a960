package gnn

import (
	"time"

	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// meter measures primitives on the blocks of one layer, at the widths that its ways have, each once. Rates that were
// fitted through two widths for all layers predicted worse.
type meter struct {
	t     *trainer
	a     *sparse.Matrix
	x, y  []float32 // of destinations or sources
	found map[measured]float64
	err   error
}

type measured struct {
	what           primitive
	columns, other int
}

func newMeter(t *trainer, number int) *meter {
	return &meter{t: t, a: t.sampled[number], found: map[measured]float64{}}
}

// price returns the seconds of a primitive: see prices. The first error sticks.
func (m *meter) price(what primitive, columns, other int) float64 {
	key := measured{what, columns, other}
	if have, ok := m.found[key]; ok || m.err != nil {
		return have
	}
	memory := m.t.tape.memory
	n := int(max(m.a.Rows(), m.a.Cols())) * max(columns, other)
	if more := 2 * floatBytes * int64(n-len(m.x)); more > 0 {
		if m.err = memory.take(more, "operands that are measured"); m.err != nil {
			return 0
		}
		m.x, m.y = nil, nil // before the next are made
		memory.collect()
		m.x, m.y = waves(n), make([]float32, n)
	}
	room := m.operandBytes(what, columns, other)
	if m.err = memory.take(room, "operands that are measured"); m.err != nil {
		return 0
	}
	defer memory.give(room)
	f := m.aggregation(what, columns, other)
	if f == nil {
		f = m.denseWork(what, columns, other)
	}
	took, err := least(func() error {
		m.t.tape.Reset()
		return m.t.tape.memory.within(f)
	})
	m.found[key], m.err = took.Seconds(), err
	return m.found[key]
}

// operandBytes bounds what a primitive takes beside x and y: values of edges twice, or a weight and its gradient.
func (m *meter) operandBytes(what primitive, columns, other int) int64 {
	n := int64(max(other, m.t.data.features, 1)) * int64(columns)
	switch what {
	case summingValues, summingValuesBack, dotting:
		n = int64(max(other, 1)) * m.a.Edges()
	}
	return 2 * floatBytes * (n + m.a.Cols())
}

// release gives back what the meter holds. Nobody uses it afterwards.
func (m *meter) release() { m.t.tape.memory.give(2 * floatBytes * int64(len(m.x))) }

// priceRounds is how often a primitive is measured; the least time counts.
const priceRounds = 3

func least(f func() error) (best time.Duration, err error) {
	for range priceRounds + 1 { // the first one warms up
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if took := time.Since(start); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

func (m *meter) of(s []float32, rows int64, columns int) unified.Tensor {
	return tensor(s[:int(rows)*columns], int(rows), columns)
}

// aggregation returns what computes a primitive over edges, or nil.
func (m *meter) aggregation(what primitive, columns, heads int) func() error {
	pool, a := m.t.tape.pool, m.a
	x, y := m.of(m.x, a.Cols(), columns), m.of(m.y, a.Rows(), columns)
	dy, dx := m.of(m.x, a.Rows(), columns), m.of(m.y, a.Cols(), columns)
	values := func() unified.Tensor {
		if m.t.model.kind == "gcn" {
			return a.GCNNorm()
		}
		n := heads * int(a.Edges())
		return tensor(waves(n), heads, int(a.Edges()))
	}
	switch what {
	case summing, summingBack:
		r, transposed := sparse.Sum, unified.Tensor{}
		if m.t.model.kind == "sage" {
			r, transposed = sparse.Mean, a.TransposedMeans()
		}
		if what == summing {
			return func() error { return pool.SpMM(y, r, a, unified.Tensor{}, x) }
		}
		return func() error { return pool.SpMM(dx, sparse.Sum, a.Transpose(), transposed, dy) }
	case summingValues:
		v := values()
		return func() error { return pool.SpMM(y, sparse.Sum, a, v, x) }
	case summingValuesBack:
		v := values()
		if m.t.model.kind == "gcn" {
			v = a.Transpose().GCNNorm()
			return func() error { return pool.SpMM(dx, sparse.Sum, a.Transpose(), v, dy) }
		}
		room := tensor(make([]float32, heads*int(a.Edges())), heads, int(a.Edges()))
		return func() error { return pool.SpMMBackward(dx, sparse.Sum, a, v, dy, room) }
	case dotting:
		to := tensor(make([]float32, heads*int(a.Edges())), heads, int(a.Edges()))
		return func() error { return pool.SDDMM(to, a, dy, x) }
	}
	return nil
}

// denseWork returns what computes a primitive over rows.
func (m *meter) denseWork(what primitive, columns, other int) func() error {
	tape, rows := m.t.tape, m.a.Rows()
	switch what {
	case multiplyingAll, weighingAll, scalingAll, projecting:
		rows = m.a.Cols()
	}
	x, y := m.of(m.x, rows, columns), m.of(m.y, rows, other)
	switch what {
	case multiplying, multiplyingAll:
		w := tensor(waves(columns*other), columns, other)
		return func() error { return tape.pool.MatMul(y, x, w) }
	case weighing, weighingAll:
		to := tensor(make([]float32, columns*other), columns, other)
		return func() error { return tape.pool.MatMulTransposed(to, x, y) }
	case scaling, scalingAll:
		by := m.a.InverseRoots()
		if what == scalingAll {
			by = m.a.Transpose().InverseRoots()
		}
		return func() error {
			tape.Scale(newVariable(int(rows), columns, m.x), by)
			return tape.Err()
		}
	case projecting:
		return m.projection(columns)
	}
	return func() error { // entering
		x, w := m.t.data.sparse, newVariable(m.t.data.features, columns, waves(m.t.data.features*columns))
		w.Grad = make([]float32, len(w.Data))
		tape.SparseLinear(x, w)
		return tape.Backward()
	}
}

// projection returns what computes both scores of attention, forward and backward, for one head.
func (m *meter) projection(width int) func() error {
	n := int(m.a.Cols())
	v := newVariable(1, width, waves(width))
	v.Grad = make([]float32, width)
	at := &attention{autodiff: m.t.tape, a: m.a, heads: 1, width: width, stride: width, source: v, target: v,
		x: &variable{Rows: n, Cols: width, Data: m.x[:n*width], Grad: m.y[:n*width]}}
	to := make([]float32, n)
	return func() error {
		if err := at.rowSpans(n, width, func(lo, hi int) {
			at.project(to[:hi], v, lo)
			at.project(to[:hi], v, lo)
		}); err != nil {
			return err
		}
		return at.unproject(to[:m.a.Rows()], to)
	}
}
