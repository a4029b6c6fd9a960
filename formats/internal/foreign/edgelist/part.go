package edgelist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/unified"
)

// facts are what a part of a text is read by: what the first lines say of all.
type facts struct {
	From     int64 // where the first edge begins
	Delim    byte
	Fields   int
	Src, Dst int
	Names    bool
	Types    [2]string
	Columns  []columnFacts
}

// columnFacts are those of a columnSpec.
type columnFacts struct {
	Name     string
	Field    int
	DType    string // "": found out
	Explicit bool
}

// plan reads the first lines.
func plan(ctx context.Context, at source.Place, r *source.Request) (_ *source.Planned, err error) {
	opt, err := optionsOf(r)
	if err != nil {
		return nil, err
	}
	f, err := at.OpenText()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	switch {
	case f.Compression != "":
		return &source.Planned{Whole: "it is compressed by " + f.Compression}, nil
	case at.Tree.Encoded():
		return &source.Planned{Whole: "its encoding is not UTF-8"}, nil
	case opt.Skips.Any():
		return &source.Planned{Whole: "bad lines are counted over all of it"}, nil
	}
	x := &reader{path: f.Path, size: f.Size, opt: opt, nulls: source.NullSet(opt.Null)}
	p := &piece{}
	c, before := &cutter{r: f, path: f.Path}, f.Mark()
	for x.lay == nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := c.next(p); err == io.EOF {
			return &source.Planned{Whole: "there is no edge in it"}, nil
		} else if err != nil {
			return nil, err
		}
		if x.lay, err = x.detect(p); err != nil {
			return nil, err
		}
		if x.lay == nil {
			before += int64(p.n)
		}
	}
	l := x.lay
	known := facts{From: before + int64(l.skip), Delim: l.delim, Fields: l.fields, Src: l.src, Dst: l.dst,
		Names: l.names, Types: l.types}
	for _, c := range l.columns {
		dtype := ""
		if c.dtype != unified.Invalid {
			dtype = c.dtype.String()
		}
		known.Columns = append(known.Columns, columnFacts{c.name, c.field, dtype, c.explicit})
	}
	planned := &source.Planned{Keys: l.names, Notes: l.notes}
	if l.names && opt.IDs != Names {
		planned.Notes = append(planned.Notes, source.NewNote(source.Renumbered, "id", 0,
			"ids are names: nodes are numbered as they first appear, their names are kept as \"id\""))
	}
	planned.Facts, err = json.Marshal(known)
	return planned, err
}

// readPart reads the lines that begin in one of several equal ranges of bytes, or says what nodes there are.
func readPart(ctx context.Context, at source.Place, opt Options, part *source.Slice) (_ *source.Graph, err error) {
	var known facts
	if err := json.Unmarshal(part.Facts, &known); err != nil {
		return nil, source.Error(at.Path(), "", -1, "", fmt.Errorf("what the plan says of it: %w", err))
	}
	r := &reader{path: at.Path(), opt: opt, nulls: source.NullSet(opt.Null),
		store: &source.EdgeStore{Spool: source.Spool{Budget: opt.Budget}}}
	r.lay = &layout{delim: known.Delim, fields: known.Fields, src: known.Src, dst: known.Dst, names: known.Names,
		types: known.Types}
	for _, c := range known.Columns {
		spec := columnSpec{name: c.Name, field: c.Field, explicit: c.Explicit}
		if c.DType != "" {
			dtype, err := unified.ParseDType(c.DType)
			if err != nil {
				return nil, source.Error(at.Path(), c.Name, -1, "", err)
			}
			spec.dtype = dtype
		}
		r.lay.columns = append(r.lay.columns, spec)
	}
	g := source.Plain()
	g.Own(r.store)
	defer source.CloseOnError(&err, g)
	r.start()
	for _, c := range r.columns {
		g.Own(&c.spool)
	}
	for _, names := range []*source.Names{r.names, r.targets} {
		if names != nil {
			g.Own(names) // twice does no harm
		}
	}
	switch {
	case part.Nodes:
	case !slices.ContainsFunc(r.lay.columns, func(c columnSpec) bool { return c.dtype == unified.Invalid }):
		r.stream(ctx, at, g, part, known.From)
		return g, nil
	default:
		if err := r.readRange(ctx, at, part, known.From); err != nil {
			return nil, err
		}
	}
	r.describe(g, part)
	return g, r.finishColumns(g)
}

// stream has the edges read when they are asked for, once: what their columns hold is known. How many nodes there are
// is known then.
func (r *reader) stream(ctx context.Context, at source.Place, g *source.Graph, part *source.Slice, first int64) {
	for _, c := range r.columns {
		g.Edges.Columns = append(g.Edges.Columns, graph.Column{Name: c.name, DType: c.dtype})
	}
	r.describe(g, part)
	g.Edges.Each = func(yield func(source.Batch) error) error {
		r.yield = yield
		err := r.readRange(ctx, at, part, first)
		r.describe(g, part)
		return err
	}
}

// handOn hands on the edges of a piece.
func (r *reader) handOn(p *piece) error {
	b := source.Batch{Src: p.src, Dst: p.dst}
	for i := range p.columns {
		b.Columns = append(b.Columns, p.columns[i].data)
	}
	if len(b.Src) == 0 {
		return nil
	}
	return r.yield(b)
}

// readRange reads the lines of a part.
func (r *reader) readRange(ctx context.Context, at source.Place, part *source.Slice, first int64) (err error) {
	from, to, err := lines(at, part, first)
	if err != nil || from == to {
		return err
	}
	f, err := at.Lines(from, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r.size = to - from
	err = r.parseAll(ctx, f, &cutter{r: f, path: r.path}, &piece{})
	if at := (*formats.Error)(nil); errors.As(err, &at) && at.Path == r.path && at.Row >= 0 {
		before, e := countLines(f.Raw(), from)
		at.Row += before
		err = errors.Join(err, e)
	}
	return err
}

// lines returns where the lines of a part begin and end.
func lines(at source.Place, part *source.Slice, first int64) (from, to int64, err error) {
	raw, err := at.Raw()
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, raw.Close()) }()
	bound := func(i int) (int64, error) {
		part := (raw.Size - first) / int64(part.Of) * int64(i)
		switch {
		case i == 0 || raw.Size < first:
			return first, nil
		}
		return raw.LineFrom(first + part)
	}
	if from, err = bound(part.Number); err != nil {
		return 0, 0, err
	}
	if to = raw.Size; part.Number+1 < part.Of {
		to, err = bound(part.Number + 1)
	}
	return from, max(to, from), err
}

// countLines returns how many lines end before a byte. It is asked where an error names a line.
func countLines(r io.ReaderAt, to int64) (n int64, err error) {
	in, buf, cr := io.NewSectionReader(r, 0, to), make([]byte, 1<<18), false
	for {
		k, err := in.Read(buf)
		for _, c := range buf[:k] {
			if c == '\n' && !cr || c == '\r' {
				n++
			}
			cr = c == '\r'
		}
		if err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

// describe says what nodes there are, and leaves to others what depends on all parts.
func (r *reader) describe(g *source.Graph, part *source.Slice) {
	_, greatest := r.store.Range()
	greatest = max(greatest, r.most[0], r.most[1])
	counts, lists := [2]int64{greatest + 1, greatest + 1}, []*source.Names{r.names}
	if r.lay.twoTypes() {
		g.Nodes = slices.Grow(g.Nodes[:0], 2)[:2]
		g.Types = []source.EdgeType{{Source: 0, Relation: "edge", Target: 1}}
		counts, lists = [2]int64{r.most[0] + 1, r.most[1] + 1}, []*source.Names{r.names, r.targets}
	}
	for i, names := range lists {
		node := &g.Nodes[i]
		if node.Name = r.lay.types[i]; node.Name == "" {
			node.Name = "node"
		}
		switch {
		case names != nil:
			if keys := names.Strings("id"); !part.Nodes { // of the nodes nothing but edges has the keys
				node.Keys, node.Count = &keys, keys.Rows
			}
		case r.opt.Nodes > 0:
			node.Count = r.opt.Nodes
		default:
			node.Count, node.Counted = counts[i], true
		}
	}
}
