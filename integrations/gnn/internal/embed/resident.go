package embed

import (
	"errors"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// resident sums rows of tables that are all in memory.
func (r *run) resident(y []float32, rel *Relation, of nodes, lo, hi int64, at state) error {
	if lo == 0 { // each page once
		for _, t := range rel.tables() {
			if t.near {
				continue
			}
			r.now.Did.Read += t.size()
			if missing(t.bytes) == 0 {
				continue
			}
			if err := pinned.Populate(t.bytes); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return r.readError(t, 0, err)
			}
		}
	}
	l, err := r.links(rel, of, lo, hi, rel.Loops)
	if err != nil {
		return err
	}
	o := &operands{global: l, local: l}
	if o.x, err = r.whole(rel.Table); err != nil {
		return err
	}
	if rel.Reduce == Attend {
		x, err := r.whole(rel.Score)
		if err != nil {
			return err
		}
		o.score = floats(x.Bytes())
	}
	return r.multiply(y, rel, o, at)
}

// whole returns all rows of a table as package sparse reads them, which are in memory: once for a step where they are
// made of others.
func (r *run) whole(t *Table) (unified.Tensor, error) {
	if t.operand() {
		return unified.New(t.DType, t.bytes, t.Rows, int64(t.Width))
	}
	if x := r.wide[t]; x != nil {
		return matrix(x, t.Width), nil
	}
	x, err := room[float32](r, "all of "+t.Name, t.Rows*int64(t.Width))
	if err != nil {
		return unified.Tensor{}, err
	}
	if err := r.widen(x, t.bytes, t, 0); err != nil {
		return unified.Tensor{}, err
	}
	r.wide[t] = x
	return matrix(x, t.Width), nil
}
