package convert

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// MergeOptions say how to join shares.
type MergeOptions struct {
	Force    bool `help:"Replace a dataset that is there."`
	Progress formats.Progress
}

// part is an open share.
type part struct {
	*formats.Dataset
	share  Share
	placed int64 // edges that it has at most
}

// JoinShares makes the dataset dst of all shares of a conversion, in any order: the same bytes that converting at once
// writes. It takes little memory, and the shares stay. The result has the counts of the dataset.
//
// Errors: ErrOptions where a share is missing, twice there, of another source, of other options or of another version;
// formats.ErrCorrupt where what is read of one does not fit its checksums; those of formats.Open and Create.
func JoinShares(ctx context.Context, shares []string, dst string, opt MergeOptions) (s *graph.Schema, err error) {
	parts := make([]*part, 0, len(shares))
	defer func() {
		for _, p := range parts {
			err = errors.Join(err, p.Close())
		}
	}()
	for _, path := range shares {
		ds, err := formats.Open(path)
		if err != nil {
			return nil, err
		}
		p := &part{Dataset: ds}
		parts = append(parts, p)
		if err := p.read(); err != nil {
			return nil, err
		}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: there are no shares to join", ErrOptions)
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(a.share.Number, b.share.Number) })
	j := &join{ctx: ctx, parts: parts, first: parts[0].Graph().Schema()}
	if err := j.check(); err != nil {
		return nil, err
	}
	if err := pinned.Guard(func() error { s, err = j.write(dst, opt); return err }); err != nil {
		return nil, err
	}
	return s, nil
}

// read reads what the share says of itself.
func (p *part) read() error {
	about := p.Manifest().Provenance
	text, ok := about[shareKey]
	if !ok {
		return p.refuse("it is not a share: convert with %s makes one", option.NameOf(Options{}, "Share"))
	}
	if err := p.share.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%s: %w", paths.Text(p.Path()), err)
	}
	if !strings.HasPrefix(about[sourceKey], fmt.Sprintf("%d:", shareVersion)) {
		return p.refuse("share %v is of another version of khop: convert all shares with one version", p.share)
	}
	edges, err := strconv.ParseInt(about[placedKey], 10, 64)
	if p.placed = edges; err != nil || edges < p.Graph().NumEdges() {
		return p.refuse("share %v says that it has %s edges, and has %d: convert it again", p.share, about[placedKey],
			p.Graph().NumEdges())
	}
	if p.share.Number > 1 && len(p.Graph().Splits())+len(p.LinkSplits()) > 0 {
		return p.refuse("share %v has splits, which only the first has: convert it again, and add to the result",
			p.share)
	}
	return nil
}

// refuse is an error about the share.
func (p *part) refuse(format string, args ...any) error {
	return option.Textf("%w: %s: %w", ErrOptions, paths.Text(p.Path()), option.Textf(format, args...))
}

// join is one run of JoinShares.
type join struct {
	ctx   context.Context
	parts []*part
	first *graph.Schema
	w     *formats.Writer
}

// check refuses shares that do not belong together.
func (j *join) check() error {
	of := j.parts[0].share.Of
	for i, p := range j.parts {
		switch {
		case p.share.Of != of:
			return fmt.Errorf("%w: %s is share %v, %s share %v", ErrOptions, paths.Text(j.parts[0].Path()),
				j.parts[0].share, paths.Text(p.Path()), p.share)
		case i > 0 && p.share == j.parts[i-1].share:
			return fmt.Errorf("%w: %s and %s are both share %v", ErrOptions, paths.Text(j.parts[i-1].Path()),
				paths.Text(p.Path()), p.share)
		case p.share.Number != i+1 || i == len(j.parts)-1 && p.share.Number != of:
			missing := i + 1
			if p.share.Number == missing {
				missing++
			}
			return option.Textf("%w: share %d/%d is missing: convert with %s %d/%d, and merge again", ErrOptions,
				missing, of, option.NameOf(Options{}, "Share"), missing, of)
		}
		if what := j.differs(p); what != "" {
			return fmt.Errorf("%w: %s and %s are of different conversions: %s", ErrOptions,
				paths.Text(j.parts[0].Path()), paths.Text(p.Path()), what)
		}
	}
	return j.complete()
}

// complete compares what the shares have together with what each says that all have.
func (j *join) complete() error {
	are, most := whole{nodes: j.first.NumNodes(), exact: true}, int64(0)
	for _, p := range j.parts {
		are.edges, most = are.edges+p.Graph().NumEdges(), most+p.placed
		for _, c := range p.Manifest().Columns {
			if strings.HasPrefix(c.Owner, "nodes/") {
				are.arrays++
			}
		}
	}
	atMost := are
	atMost.edges, atMost.exact = most, false
	say := j.parts[0].Manifest().Provenance[wholeKey]
	if say == are.String() || say == atMost.String() {
		return nil
	}
	if strings.Contains(say, " at most ") {
		are = atMost
	}
	return fmt.Errorf("%w: %s and its other shares have %v together, and say that all have %s: convert them again",
		ErrOptions, paths.Text(j.parts[0].Path()), are, say)
}

// differs says in what a share differs from the first; "" for nothing.
func (j *join) differs(p *part) string {
	a, b := j.parts[0].Manifest().Provenance, p.Manifest().Provenance
	for _, key := range []string{optionsKey, "kind", "source_edges", "direction", "classes", wholeKey} {
		if a[key] != b[key] {
			return fmt.Sprintf("%s is %q, not %q", key, b[key], a[key])
		}
	}
	s := p.Graph().Schema()
	same := len(s.Nodes) == len(j.first.Nodes) && len(s.Edges) == len(j.first.Edges) &&
		slices.EqualFunc(s.EdgeColumns, j.first.EdgeColumns, func(a, b graph.Column) bool {
			return a.Name == b.Name && a.DType == b.DType && a.Unit == b.Unit && slices.Equal(a.Shape, b.Shape)
		})
	for t := range s.Nodes {
		same = same && s.Nodes[t].Name == j.first.Nodes[t].Name && s.Nodes[t].Count == j.first.Nodes[t].Count
	}
	for t := range s.Edges {
		same = same && s.Edges[t].String() == j.first.Edges[t].String() && s.Edges[t].Order == j.first.Edges[t].Order
	}
	if !same {
		return "their types or columns of edges differ"
	}
	if a[sourceKey] != b[sourceKey] {
		return "they were made of different sources, or of one that was edited in between"
	}
	return ""
}

// write writes the dataset.
func (j *join) write(dst string, opt MergeOptions) (s *graph.Schema, err error) {
	provenance := map[string]string{}
	bytes, inputs := int64(0), []string{}
	for _, p := range j.parts {
		inputs = append(inputs, p.Path())
		bytes += p.FileBytes()
		for k, v := range p.Manifest().Provenance {
			if !slices.Contains(shareKeys, k) {
				provenance[k] = v
			}
		}
	}
	j.w, err = formats.Create(dst, formats.WriterOptions{Force: opt.Force, Progress: opt.Progress,
		ExpectBytes: bytes, Provenance: provenance, Inputs: inputs})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.w.Abort()) }() // where a mapped file faults, err is not set yet
	s = &graph.Schema{EdgeColumns: j.first.EdgeColumns}
	if err := j.edges(s); err != nil {
		return nil, err
	}
	if err := j.nodes(s); err != nil {
		return nil, err
	}
	if err := j.splits(s); err != nil {
		return nil, err
	}
	return s, j.w.Commit(*s)
}

// edges writes the structure and the columns of the edges, one share behind the other.
func (j *join) edges(s *graph.Schema) error {
	for t, e := range j.first.Edges {
		e.Count = 0
		for _, p := range j.parts {
			e.Count += p.Graph().Schema().Edges[t].Count
		}
		s.Edges = append(s.Edges, e)
	}
	if err := j.indptr(); err != nil {
		return err
	}
	joined := func(cw *formats.ColumnWriter, err error, of func(g *graph.Graph) unified.Tensor) error {
		return fill(cw, err, func() error {
			for _, p := range j.parts {
				if err := j.copy(cw, p, of(p.Graph()).Bytes()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	m := s.NumEdges()
	cw, err := j.w.Topology("indices", j.first.IDType(), m)
	if err := joined(cw, err, (*graph.Graph).Indices); err != nil {
		return err
	}
	if t := j.parts[0].Graph().Types(); t.Valid() {
		cw, err := j.w.Topology("type", t.DType(), m)
		if err := joined(cw, err, (*graph.Graph).Types); err != nil {
			return err
		}
	}
	for _, c := range s.EdgeColumns {
		cw, err := j.w.EdgeColumn(c, m)
		if err := joined(cw, err, func(g *graph.Graph) unified.Tensor {
			col, _ := g.EdgeColumn(c.Name)
			return col
		}); err != nil {
			return err
		}
	}
	return nil
}

// indptr writes where the edges of each node begin: those of a share begin behind all of the shares before.
func (j *join) indptr() error {
	n := j.first.NumNodes()
	cw, err := j.w.Topology("indptr", unified.Int64, n+1)
	return fill(cw, err, func() error {
		base, buf := int64(0), make([]byte, 0, 1<<18)
		for i, p := range j.parts {
			indptr := p.Graph().Indptr()
			first, last := p.share.bounds(n)
			if err := p.verify(unified.FromSlice(indptr).Bytes()); err != nil {
				return err
			}
			if indptr[first] != 0 || indptr[last] != p.Graph().NumEdges() {
				return source.Error(p.Path(), "", -1, "convert the share again",
					errors.New("it has edges to nodes of other shares"))
			}
			if i == len(j.parts)-1 {
				last++
			}
			for _, at := range indptr[first:last] {
				if buf = binary.LittleEndian.AppendUint64(buf, uint64(base+at)); len(buf) >= 1<<18 {
					if err := j.put(cw, buf); err != nil {
						return err
					}
					buf = buf[:0]
				}
			}
			base += p.Graph().NumEdges()
		}
		return j.put(cw, buf)
	})
}

// copy writes elements of a share, which are verified before.
func (j *join) copy(w io.Writer, p *part, elements []byte) error {
	return p.named(p.Each(elements, func(b []byte) error { return j.put(w, b) }))
}

// put writes bytes, unless the context has ended.
func (j *join) put(w io.Writer, b []byte) error {
	if j.ctx.Err() != nil {
		return context.Cause(j.ctx)
	}
	_, err := w.Write(b)
	return err
}

// verify compares elements of a share with their checksums.
func (p *part) verify(elements []byte) error { return p.named(p.Verify(elements)) }

// named says of damage which share has it.
func (p *part) named(err error) error {
	if errors.Is(err, formats.ErrCorrupt) {
		return fmt.Errorf("share %v: %w", p.share, err)
	}
	return err
}

// nodes writes the columns of nodes, which the shares have in turns, and the names.
func (j *join) nodes(s *graph.Schema) error {
	for _, n := range j.first.Nodes {
		s.Nodes = append(s.Nodes, graph.NodeType{Name: n.Name, Count: n.Count})
	}
	type column struct {
		typ int
		graph.Column
	}
	lists, total := make([][]column, len(j.parts)), 0
	for i, p := range j.parts {
		for t, n := range p.Graph().Schema().Nodes {
			for _, c := range n.Columns {
				lists[i] = append(lists[i], column{t, c})
				total++
			}
		}
	}
	for at := range total {
		p := at % len(j.parts)
		if len(lists[p]) == 0 {
			return source.Error(j.parts[p].Path(), "", -1, "convert the share again",
				errors.New("it lacks columns of nodes, or another share has too many"))
		}
		c := lists[p][0]
		lists[p] = lists[p][1:]
		col, _ := j.parts[p].Graph().NodeColumn(c.typ, c.Name)
		cw, err := j.w.NodeColumn(c.typ, c.Column, col.Len())
		if err := fill(cw, err, func() error { return j.copy(cw, j.parts[p], col.Bytes()) }); err != nil {
			return err
		}
		s.Nodes[c.typ].Columns = append(s.Nodes[c.typ].Columns, c.Column)
	}
	return j.names(s)
}

// names writes the names of nodes, which the first share has.
func (j *join) names(s *graph.Schema) error {
	first := j.parts[0]
	for _, a := range first.Manifest().Columns {
		if a.DType != "utf8" {
			continue
		}
		t := slices.IndexFunc(s.Nodes, func(n graph.NodeType) bool { return a.Owner == ownerOf(s, n.Name) })
		list, err := first.Strings(t, a.Name)
		if err == nil {
			err = first.verify(list.Bytes())
		}
		if err != nil {
			return err
		}
		sw, err := j.w.NodeStrings(t, a.Name, list.Len())
		if err := fill(sw, err, func() error {
			for i := range list.Len() {
				name, err := list.At(i)
				if err == nil {
					err = sw.Write(name)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf returns what a manifest calls the owner of a node type's columns.
func ownerOf(s *graph.Schema, name string) string { return fmt.Sprintf("nodes/%d", s.NodeType(name)) }

// splits writes the splits and links, which the first share has.
func (j *join) splits(s *graph.Schema) error {
	put := func(cw *formats.ColumnWriter, err error, data []byte) error {
		return fill(cw, err, func() error { return j.copy(cw, j.parts[0], data) })
	}
	if err := s.Init(); err != nil {
		return err
	}
	for _, split := range j.parts[0].Graph().Splits() {
		if split.Task() != "" {
			if err := j.w.Table(split.Name, split.Seeds, s, func(cw *formats.ColumnWriter, err error,
				t unified.Tensor) error {
				return put(cw, err, t.Bytes())
			}); err != nil {
				return err
			}
			continue
		}
		for _, set := range split.Seeds.Sets {
			cw, err := j.w.Split(split.Name, split.Index, set.Type, set.IDs.DType(), set.IDs.Len())
			if err := put(cw, err, set.IDs.Bytes()); err != nil {
				return err
			}
		}
	}
	for _, k := range j.parts[0].LinkSplits() {
		for _, set := range k.Sets {
			e := s.Edges[set.EdgeType]
			for _, end := range []struct {
				name string
				typ  int
				unified.Tensor
			}{{"source", e.Src, set.Sources}, {"target", e.Dst, set.Targets}, {"label", 0, set.Labels}} {
				if !end.Valid() {
					continue
				}
				cw, err := j.w.Links(k.Name, k.Index, set.EdgeType, end.typ, end.name, end.DType(), end.Len())
				if err := put(cw, err, end.Bytes()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
