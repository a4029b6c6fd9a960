package convert

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// byTimes numbers nodes that are not in the order of their times: of all types where an option asks for it, else of
// those that nobody names. In-edges, which lie in the order of their sources, are then in that of their times, and
// samplers bisect them.
func (c *conversion) byTimes(ctx context.Context, m *numbering) error {
	asked, some := c.opt.Reorder == ByNodeTime, false
	var without []*source.NodeType
	for t := range c.graph.Nodes {
		n := &c.graph.Nodes[t]
		at := c.columnOf(t, graph.Time.String())
		if at < 0 || !isTime(&n.Columns[at].Column) {
			without = append(without, n)
			continue
		}
		if some = true; !asked && !n.OfTable {
			continue
		}
		ascend, err := ascends(ctx, &n.Columns[at])
		if err != nil {
			return err
		}
		if ascend {
			continue
		}
		if !asked && !n.Unnamed {
			c.graph.Tell(source.Said, n.Name, n.Count, "the rows of %q (%d) are not in the order of their times: "+
				"samplers look at each of a node, and with %s time they bisect them", n.Name, n.Count,
				option.NameOf(c.opt, "Reorder"))
			continue
		}
		if err := c.byTimesOf(ctx, m, t, &n.Columns[at]); err != nil {
			return err
		}
	}
	for _, n := range without {
		if some && n.OfTable && n.Count > 0 {
			c.graph.Tell(source.Said, n.Name, n.Count, "the rows of %q (%d) have no times: batches of any time may "+
				"have them", n.Name, n.Count)
		}
	}
	if asked && !some {
		return option.Textf("%w: %s time: no node type has a column %q of one int64 each", ErrOptions,
			option.NameOf(c.opt, "Reorder"), graph.Time)
	}
	return nil
}

func isTime(c *graph.Column) bool { return len(c.Shape) == 0 && c.DType == unified.Int64 }

// byTimesOf numbers the nodes of a type by their times, equal ones as listed. Where that is the default, and memory
// does not suffice, it leaves them as they are.
func (c *conversion) byTimesOf(ctx context.Context, m *numbering, t int, times *source.Column) error {
	n, asked := &c.graph.Nodes[t], c.opt.Reorder == ByNodeTime
	if err := c.mayRenumber(t); err != nil {
		return err
	}
	if n.Count > math.MaxUint32 {
		return fmt.Errorf("%w: %d nodes cannot be numbered anew: at most %d", ErrOptions, n.Count,
			uint32(math.MaxUint32))
	}
	order, err := m.sorted(ctx, times, n.Count)
	if errors.Is(err, pinned.ErrLimit) && !asked {
		c.graph.Tell(source.Said, n.Name, n.Count, "the rows of %q (%d) are not numbered in the order of their "+
			"times, and samplers look at each of a node: %w", n.Name, n.Count, err)
		return nil
	}
	if err != nil {
		return err
	}
	number := make([]uint32, n.Count)
	for i, v := range order {
		number[v] = uint32(i)
	}
	m.types[t] = anew{order, number}
	change := source.Renumbered
	if asked {
		change = source.Said
	}
	c.graph.Tell(change, n.Name, n.Count, "the rows of %q (%d) are numbered anew, in the order of their times; %q has "+
		"their numbers in the source, which %s no keeps", n.Name, n.Count, oldIDs, option.NameOf(c.opt, "Reorder"))
	return nil
}

// sorted returns n nodes in the order of their times. It takes 8 bytes a node until m is closed, and 8 more meanwhile.
func (m *numbering) sorted(ctx context.Context, column *source.Column, n int64) ([]uint32, error) {
	give, err := m.take(8, n)
	if err != nil {
		return nil, err
	}
	defer give()
	if err := m.keep(8, n); err != nil {
		return nil, err
	}
	times := make([]int64, 0, n)
	if err := eachTime(ctx, column, func(t int64) { times = append(times, t) }); err != nil {
		return nil, err
	}
	order := make([]uint32, len(times))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(a, b))
	})
	return order, nil
}

// ascends reports whether times descend nowhere.
func ascends(ctx context.Context, column *source.Column) (bool, error) {
	last, fell := int64(math.MinInt64), false
	err := eachTime(ctx, column, func(t int64) { fell, last = fell || t < last, t })
	return !fell, err
}

// eachTime reads a column of times.
func eachTime(ctx context.Context, column *source.Column, f func(t int64)) error {
	return column.Write(ctx, &arrayfile.WholeRows{Row: 8, Take: func(rows []byte) error {
		for ; len(rows) > 0; rows = rows[8:] {
			f(int64(binary.LittleEndian.Uint64(rows)))
		}
		return nil
	}})
}

// newNumbering returns one in which all nodes keep their numbers.
func (c *conversion) newNumbering() *numbering {
	m := &numbering{ledger: &c.ledger, types: make([]anew, len(c.graph.Nodes))}
	for _, n := range c.graph.Nodes {
		m.offset = append(m.offset, m.n)
		m.n += n.Count
	}
	return m
}
