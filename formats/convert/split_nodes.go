package convert

import (
	"context"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/rng"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// findNodes finds the type of the nodes.
func (d *dealer) findNodes() (err error) {
	if d.typ = d.schema.NodeType(d.opt.Type); d.opt.Type == "" && len(d.schema.Nodes) == 1 {
		d.typ = 0
	}
	if d.typ < 0 {
		var names []string
		for _, n := range d.schema.Nodes {
			names = append(names, n.Name)
		}
		return d.noType("a node type", names)
	}
	d.key = d.schema.Nodes[d.typ].Key
	return nil
}

// dealtNodes are nodes of a type by split.
type dealtNodes struct {
	*dealer
	index    int
	stage    uint64
	label    func(v int64) int64 // nil: there are none
	perClass map[int64]uint64    // the greatest draw of those of a class that are in train
	ranks    ranks
	order    []int // the split of each rank
	n        [3]int64
}

// nodes deals nodes.
func (d *dealer) nodes(index int) (dealt, error) {
	x := &dealtNodes{dealer: d, index: index, stage: d.stage}
	column, _ := d.ds.Graph().NodeRole(d.typ, graph.Label)
	if column.Valid() && !column.DType().IsFloat() && column.Rank() == 1 {
		x.label, _ = unified.Integers(column)
	}
	if d.opt.PerClass > 0 && x.label == nil {
		return nil, option.Errorf(ErrOptions, *d.opt, "PerClass", ": the nodes have no labels of whole numbers")
	}
	if err := x.takeOfClasses(); err != nil {
		return nil, err
	}
	taken, left := int64(0), int64(0)
	d.res.Items, d.res.NoLabel = 0, 0
	err := x.each(func(v int64, draw uint64) error {
		d.res.Items++
		if x.inClass(v, draw) {
			taken++
		} else {
			left++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.res.NoLabel = d.schema.Nodes[d.typ].Count - d.res.Items
	if err := x.settle(left); err != nil {
		return nil, err
	}
	return x, x.each(func(v int64, draw uint64) error {
		if in := x.in(v, draw); in != inNone {
			x.n[in]++
		}
		return nil
	})
}

// settle decides which draws are in which split, of those that are left by classes.
func (x *dealtNodes) settle(left int64) error {
	rest, cuts, end := inNone, []int64{}, int64(0)
	for i, o := range []struct{ field, text string }{{"Train", x.opt.Train}, {"Val", x.opt.Val}, {"Test", x.opt.Test}} {
		n, err := x.opt.amount(o.field, o.text, x.res.Items)
		switch {
		case err != nil:
			return err
		case i == inTrain && x.opt.PerClass > 0:
			continue
		case n < 0 && rest != inNone:
			return option.Errorf(ErrOptions, *x.opt, o.field, " is rest, as another is, too: say how many")
		case n < 0:
			rest = i
			continue
		}
		if end += n; end > left {
			return option.Errorf(ErrOptions, *x.opt, o.field, " %s: that is %d in all, but %d are there", o.text, end,
				left)
		}
		cuts, x.order = append(cuts, end), append(x.order, i)
	}
	x.order = append(x.order, rest)
	var err error
	x.ranks, err = rank(cuts, left, &x.ledger, func(yield func(draw uint64) error) error {
		return x.each(func(v int64, draw uint64) error {
			if x.inClass(v, draw) {
				return nil
			}
			return yield(draw)
		})
	})
	return err
}

// each yields the nodes that have a label, with their draws.
func (x *dealtNodes) each(yield func(v int64, draw uint64) error) error {
	for v := range x.schema.Nodes[x.typ].Count {
		if v&0xFFFF == 0 && x.ctx.Err() != nil {
			return context.Cause(x.ctx)
		}
		if x.label != nil && x.label(v) < 0 {
			continue
		}
		if err := yield(v, rng.Draw(rng.Stream(x.stage, uint64(v)), 0)); err != nil {
			return err
		}
	}
	return nil
}

// takeOfClasses finds the smallest draws of each class.
func (x *dealtNodes) takeOfClasses() error {
	k := x.opt.PerClass
	if k == 0 {
		return nil
	}
	least := map[int64]*smallest{}
	held := int64(0)
	defer func() { x.ledger.Give(pinned.Sources, held) }()
	err := x.each(func(v int64, draw uint64) error {
		of := least[x.label(v)]
		if of == nil {
			of = &smallest{most: k}
			least[x.label(v)] = of
		}
		grown := 8 * int64(cap(of.draws))
		of.add(draw)
		if grown = 8*int64(cap(of.draws)) - grown; grown > 0 {
			held += grown
			return x.ledger.Take(pinned.Sources, grown)
		}
		return nil
	})
	x.perClass = make(map[int64]uint64, len(least))
	for class, of := range least {
		of.cut()
		x.perClass[class] = of.draws[len(of.draws)-1]
	}
	return err
}

// inClass reports whether a node is in train as one of its class.
func (x *dealtNodes) inClass(v int64, draw uint64) bool {
	return x.perClass != nil && draw <= x.perClass[x.label(v)]
}

// in returns the split of a node.
func (x *dealtNodes) in(v int64, draw uint64) int {
	if x.inClass(v, draw) {
		return inTrain
	}
	return x.order[x.ranks.of(draw)]
}

func (x *dealtNodes) counts() [3]int64 { return x.n }
func (x *dealtNodes) bytes() int64 {
	return (x.n[0] + x.n[1] + x.n[2]) * x.schema.IDType().Size()
}

// write writes the three splits, in the order of the nodes' ids.
func (x *dealtNodes) write(w *formats.Writer) error {
	var to [3]*dealtIDs
	for i := range to {
		cw, err := w.Split(x.opt.Names[i], x.index, x.typ, x.schema.IDType(), x.n[i])
		if err != nil {
			return err
		}
		to[i] = x.idWriter(cw)
	}
	err := x.each(func(v int64, draw uint64) error {
		if in := x.in(v, draw); in != inNone {
			return to[in].add(v)
		}
		return nil
	})
	for _, list := range to {
		if err == nil {
			err = list.close()
		}
	}
	return err
}
