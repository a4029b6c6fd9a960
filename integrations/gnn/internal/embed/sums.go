package embed

import (
	"fmt"

	"github.com/khop-gnn/khop/internal/vector"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

// operands are the rows that edges of a range sum: x, and of attention the scores of sources. local are the edges,
// whose sources are rows of these; global have their own ids.
type operands struct {
	global, local *links
	x             unified.Tensor
	score         []float32
}

// state is what attention reads of the nodes of a range.
type state struct{ target, greatest []float32 }

// multiply writes the sums of a relation for a range of nodes by the kernels of package sparse.
func (r *run) multiply(y []float32, rel *Relation, o *operands, at state) error {
	if len(y) == 0 {
		return nil
	}
	a, err := o.local.matrix(o.x.Len())
	if err != nil {
		return err
	}
	to, none := matrix(y, rel.Table.Width), unified.Tensor{}
	switch rel.Reduce {
	case Sum:
		return r.pool.SpMM(to, sparse.Sum, a, none, o.x)
	case Mean:
		return r.pool.SpMM(to, sparse.Mean, a, none, o.x)
	case Max:
		return r.pool.SpMMExtreme(to, none, sparse.Max, a, none, o.x)
	case Norm, NormIn:
		values, err := r.norms(rel, o.global)
		if err != nil {
			return err
		}
		return r.pool.SpMM(to, sparse.Sum, a, unified.FromSlice(values), o.x)
	case Attend:
		return r.attend(y, rel, a, o, at)
	}
	return fmt.Errorf("embed: no reduction %d", rel.Reduce)
}

// norms returns GCN's norm of each edge.
func (r *run) norms(rel *Relation, l *links) ([]float32, error) {
	d, err := r.degreesOf(rel)
	if err != nil {
		return nil, err
	}
	values, err := room[float32](r, "values", l.count())
	if err != nil {
		return nil, err
	}
	return values, r.pool.Split(int64(len(l.start)-1), 256, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			in := l.start[i+1] - l.start[i]
			for e := l.start[i]; e < l.start[i+1]; e++ {
				values[e] = d.norm(in, l.source(e))
			}
		}
	})
}

// attend writes sums that attention weighs.
func (r *run) attend(y []float32, rel *Relation, a *sparse.Matrix, o *operands, at state) error {
	l, heads := o.local, int64(rel.Heads)
	n, edges := int64(len(l.start)-1), o.local.count()
	values, err := room[float32](r, "values", heads*edges)
	if err != nil {
		return err
	}
	whole, err := room[float32](r, "whole", heads*n)
	if err != nil {
		return err
	}
	if err := r.pool.Split(n, 256, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			sums := whole[i*heads : (i+1)*heads]
			clear(sums)
			for e := l.start[i]; e < l.start[i+1]; e++ {
				score := o.score[l.source(e)*heads:]
				for h := range heads {
					w := weight(at.target[i*heads+h], score[h], at.greatest[i*heads+h])
					values[h*edges+e] = w
					sums[h] += w
				}
			}
		}
	}); err != nil {
		return err
	}
	perHead, _ := unified.FromSlice(values).Reshape(heads, edges)
	if err := r.pool.SpMM(matrix(y, rel.Table.Width), sparse.Sum, a, perHead, o.x); err != nil {
		return err
	}
	return r.divide(y, whole, rel)
}

// divide divides the parts of rows that heads have by the sums of their weights.
func (r *run) divide(y, whole []float32, rel *Relation) error {
	width, heads := int64(rel.Table.Width), int64(rel.Heads)
	part := width / heads
	return r.pool.Split(int64(len(y))/width, 256, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			for h := range heads {
				if by := whole[i*heads+h]; by != 0 {
					for k := i*width + h*part; k < i*width+(h+1)*part; k++ {
						y[k] /= by
					}
				}
			}
		}
	})
}

// weight is that of an edge, by attention, before it is divided by their sum.
func weight(target, score, greatest float32) float32 {
	return vector.Exp(leaky(target+score) - leaky(target+greatest))
}

func leaky(x float32) float32 {
	if x > 0 {
		return x
	}
	return float32(x * slope)
}
