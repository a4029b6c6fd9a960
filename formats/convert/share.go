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
	"github.com/khop-gnn/khop/unified"
)

// Share is one of several shares of a conversion, so that several machines can convert one source. A share is a dataset
// of all nodes, which has the in-edges of some: of those from nodes*(Number-1)/Of to below nodes*Number/Of, all types
// numbered through. Columns of nodes go round the shares; splits, links and names are in the first.
type Share struct {
	Number, Of int // 1 to Of; zeros are no share
}

// The provenance of a share says which it is, by which options and of what it was made, and what the shares make
// together: docs/format.md.
const (
	shareKey   = "share"
	optionsKey = "options"
	sourceKey  = "source_xxh3"
	placedKey  = "share_edges"
	wholeKey   = "whole"
)

// shareKeys are those that a dataset of all shares does not have.
var shareKeys = []string{shareKey, optionsKey, sourceKey, placedKey, wholeKey}

// shareVersion is the first part of a source's checksum. It changes with what the checksum covers, and with what shares
// hold: shares of different versions are not joined.
const shareVersion = 1

// whole is what all shares have together.
type whole struct {
	nodes, edges int64
	exact        bool // edges are so many, not so many at most: none is merged, added or left out
	arrays       int  // columns and names of nodes
}

// String is what the provenance of a share has.
func (w whole) String() string {
	most := "at most "
	if w.exact {
		most = ""
	}
	return fmt.Sprintf("%d nodes, %s%d edges, %d arrays", w.nodes, most, w.edges, w.arrays)
}

// record is what a share says of itself.
type record struct {
	source string // checksum
	placed int64  // the edges that it has, at most
	whole  whole
}

// put adds the record to a provenance.
func (r *record) put(p map[string]string) {
	p[sourceKey], p[placedKey], p[wholeKey] = r.source, strconv.FormatInt(r.placed, 10), r.whole.String()
}

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
	what.Progress, what.Log, what.Heat, what.Spell = nil, nil, nil, nil
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
	all := whole{nodes: o.nodes(), exact: o.exact, arrays: nodeArrays(o.c.graph)}
	o.keepColumns(s)
	if first == last { // none: a Last of 0 would mean all
		first, last = o.nodes(), o.nodes()
	}
	m := &numbering{}
	for _, n := range o.c.graph.Nodes {
		m.offset = append(m.offset, m.n)
		m.n += n.Count
	}
	kept, sums := int64(0), newEdgeSums(o.c.graph)
	if err := o.c.fused(ctx, m, func(listed, b source.Batch) error {
		sums.add(listed)
		for i, v := range b.Dst {
			all.edges++
			if o.both && b.Src[i] != v {
				all.edges++
			}
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
	files, err := source.Checksum(ctx, o.c.tree, o.c.inputs()[1:]...)
	if err != nil {
		return err
	}
	o.opt.First, o.opt.Last = first, last
	o.most, o.opt.Edges = kept, kept
	if o.both {
		o.opt.Edges = kept/2 + 1
	}
	if o.opt.Loops == edgesort.AddLoops {
		o.most += last - first
		all.edges += all.nodes
	}
	o.c.record = record{fmt.Sprintf("%d:%x", shareVersion, sums.with(files)), o.most, all}
	return nil
}

// nodeArrays counts the columns of nodes, which shares divide among themselves, and names, which the first has.
func nodeArrays(g *source.Graph) (n int) {
	for _, t := range g.Nodes {
		n += len(t.Columns) + len(t.Strings)
	}
	return n
}

// edgeSums are checksums of all edges as they are listed, however they come in batches: every share reads them.
type edgeSums struct {
	typed bool
	zeros []uint16
	sums  []*xxh3.Hasher // of sources, destinations, types and each column
}

func newEdgeSums(g *source.Graph) *edgeSums {
	s := &edgeSums{typed: len(g.Types) > 1}
	for range 3 + len(g.Edges.Columns) {
		s.sums = append(s.sums, xxh3.New())
	}
	return s
}

func (s *edgeSums) add(b source.Batch) {
	for i, end := range [][]int64{b.Src, b.Dst} {
		_, _ = s.sums[i].Write(unified.FromSlice(end).Bytes())
	}
	if types := b.Types; s.typed {
		if types == nil { // all of type 0
			s.zeros = append(s.zeros, make([]uint16, max(0, len(b.Src)-len(s.zeros)))...)
			types = s.zeros[:len(b.Src)]
		}
		_, _ = s.sums[2].Write(unified.FromSlice(types).Bytes())
	}
	for i, c := range b.Columns {
		_, _ = s.sums[3+i].Write(c)
	}
}

// with returns a checksum of the edges and of the source's files.
func (s *edgeSums) with(files [16]byte) [16]byte {
	all := xxh3.New()
	_, _ = all.Write(files[:])
	for _, h := range s.sums {
		sum := h.Sum128().Bytes()
		_, _ = all.Write(sum[:])
	}
	return all.Sum128().Bytes()
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
