package convert

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/edgesort"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// Share is one of several shares of a conversion, so that several machines can convert one source. A share is a dataset
// of all nodes, which has the in-edges of some: of those from nodes*(Number-1)/Of to below nodes*Number/Of, all types
// numbered through. Columns of nodes go round the shares; splits, links and names are in the first.
type Share struct {
	Number, Of int // 1 to Of; zeros are no share
}

// The provenance of a share says which it is, and by which options it was made.
const (
	shareKey   = "share"
	optionsKey = "options"
)

// maxShares is the greatest number of shares.
const maxShares = 1 << 12

// UnmarshalText reads "3/8"; ErrOptions for anything else.
func (s *Share) UnmarshalText(text []byte) (err error) {
	var read Share
	number, of, ok := strings.Cut(string(text), "/")
	if ok {
		read.Number, err = strconv.Atoi(number)
	}
	if ok && err == nil {
		read.Of, err = strconv.Atoi(of)
	}
	if !ok || err != nil || read.Of == 0 {
		return fmt.Errorf("%w: share %q: the third of eight is 3/8", ErrOptions, text)
	}
	*s = read
	return s.check()
}

func (s Share) check() error {
	if s != (Share{}) && (s.Of < 1 || s.Of > maxShares || s.Number < 1 || s.Number > s.Of) {
		return fmt.Errorf("%w: share %v: shares are 1/n to n/n, and n is at most %d", ErrOptions, s, maxShares)
	}
	return nil
}

// String returns "3/8".
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Number, s.Of) }

// bounds returns the nodes whose in-edges a share has.
func (s Share) bounds(nodes int64) (first, last int64) {
	whole, rest, of := nodes/int64(s.Of), nodes%int64(s.Of), int64(s.Of)
	at := func(i int64) int64 { return whole*i + rest*i/of }
	return at(int64(s.Number) - 1), at(int64(s.Number))
}

// digest tells options apart that make different datasets of one source.
func (o *Options) digest() string {
	what := *o
	what.Share, what.DryRun, what.Force, what.MemoryLimit = Share{}, false, false, 0
	what.Progress, what.Log, what.Heat = nil, nil, nil
	what.Features, what.Labels = filepath.Base(what.Features), filepath.Base(what.Labels) // machines differ in folders
	return fmt.Sprintf("%016x", xxh3.HashString(fmt.Sprintf("%+v", what)))
}

// share restricts the conversion to its share, and counts the edges of that.
func (o *order) share(ctx context.Context) error {
	s := o.c.opt.Share
	if s.Of == 0 {
		return nil
	}
	first, last := s.bounds(o.nodes())
	o.keepColumns(s)
	if first == last { // none: a Last of 0 would mean all
		first, last = o.nodes(), o.nodes()
	}
	m := &numbering{}
	for _, n := range o.c.graph.Nodes {
		m.offset = append(m.offset, m.n)
		m.n += n.Count
	}
	kept := int64(0)
	if err := o.c.fused(ctx, m, func(b source.Batch) error {
		for i, v := range b.Dst {
			if v >= first && v < last {
				kept++
			}
			if u := b.Src[i]; o.both && u != v && u >= first && u < last {
				kept++
			}
		}
		return nil
	}); err != nil {
		return o.explain(err)
	}
	o.opt.First, o.opt.Last = first, last
	o.most, o.opt.Edges = kept, kept
	if o.both {
		o.opt.Edges = kept/2 + 1
	}
	if o.opt.Loops == edgesort.AddLoops {
		o.most += last - first
	}
	return nil
}

// keepColumns leaves out the columns of nodes, and the splits, that other shares have.
func (o *order) keepColumns(s Share) {
	g, at := o.c.graph, 0
	for t := range g.Nodes {
		n := &g.Nodes[t]
		n.Columns = slices.DeleteFunc(n.Columns, func(source.Column) bool {
			at++
			return (at-1)%s.Of != s.Number-1
		})
	}
	if s.Number == 1 {
		return
	}
	g.Splits, g.Links = nil, nil
	for t := range g.Nodes {
		g.Nodes[t].Strings = nil
	}
}
