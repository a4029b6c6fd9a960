package bvgraph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/lines"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// Reader reads web graphs.
var Reader = source.Reader{Name: "webgraph", Title: "a web graph in the BV format", Options: []string{"tables"},
	Find: findGraphs, Read: readGraph}

func findGraphs(t *source.Tree) (found []string) {
	for _, name := range t.Files() {
		stem, ok := strings.CutSuffix(name, ".graph")
		if !ok {
			stem, ok = strings.CutSuffix(name, ".properties")
		}
		if !ok || !t.Has(stem+".graph") || !t.Has(stem+".properties") {
			continue
		}
		if head, err := t.At(stem + ".properties").Head(); err == nil && strings.Contains(string(head), "BVGraph") {
			found = append(found, stem+".graph")
		}
	}
	return found
}

// properties are what the file of that name says.
type properties struct {
	nodes, arcs              int64
	window, intervals, zetaK int
	codes                    map[string]string // OUTDEGREES -> GAMMA
}

func readProperties(ctx context.Context, at source.Place, r *source.Request) (p properties, err error) {
	values := map[string]string{}
	err = lines.Each(ctx, at, r, "", func(_ int64, line []byte) error {
		text := strings.TrimSpace(string(line))
		if k, v, ok := strings.Cut(text, "="); ok && text[0] != '#' {
			values[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	fail := func(key string, err error) error { return source.Error(at.Path(), key, -1, "", err) }
	if v := values["version"]; v != "" && v != "0" {
		return p, fail("version", fmt.Errorf("version %.40q is not known", v))
	}
	if v := values["endianness"]; v != "" && v != "big" {
		return p, fail("endianness", fmt.Errorf("%.40q is not supported: only big", v))
	}
	for i, to := range []*int64{&p.nodes, &p.arcs} {
		key := []string{"nodes", "arcs"}[i]
		if *to, err = strconv.ParseInt(values[key], 10, 64); err != nil || *to < 0 || *to > 1<<48 {
			return p, fail(key, fmt.Errorf("%.40q is not a number of %s", values[key], key))
		}
	}
	for i, to := range []*int{&p.window, &p.intervals, &p.zetaK} {
		key := []string{"windowsize", "minintervallength", "zetak"}[i]
		v := cmp.Or(values[key], []string{"7", "4", "3"}[i])
		if *to, err = strconv.Atoi(v); err != nil || *to < 0 || *to > 1<<16 || key == "zetak" && (*to < 1 || *to > 16) {
			return p, fail(key, fmt.Errorf("%.40q is out of range", v))
		}
	}
	p.codes = map[string]string{"OUTDEGREES": "GAMMA", "BLOCKS": "GAMMA", "RESIDUALS": "ZETA", "REFERENCES": "UNARY",
		"BLOCK_COUNT": "GAMMA", "OFFSETS": "GAMMA"}
	for flag := range strings.FieldsFuncSeq(values["compressionflags"], func(r rune) bool {
		return r == '|' ||
			r == ' '
	}) {
		cut := strings.LastIndexByte(flag, '_')
		if cut < 0 || p.codes[flag[:cut]] == "" ||
			!slices.Contains([]string{"GAMMA", "DELTA", "ZETA", "UNARY"}, flag[cut+1:]) {
			return p, fail("compressionflags", fmt.Errorf("%.60q is not supported", flag))
		}
		p.codes[flag[:cut]] = flag[cut+1:]
	}
	if source.TooSparse(p.nodes, p.arcs) {
		return p, fail("nodes", fmt.Errorf("there are %d nodes, but only %d edges", p.nodes, p.arcs))
	}
	return p, nil
}

func readGraph(ctx context.Context, at source.Place, r *source.Request) (*source.Graph, error) {
	stem, ok := strings.CutSuffix(at.Name, ".graph")
	if !ok {
		return nil, source.Error(at.Path(), "", -1, "name the file name.graph, beside name.properties",
			source.ErrUnknown)
	}
	p, err := readProperties(ctx, source.Place{Tree: at.Tree, Name: stem + ".properties"}, r)
	if err != nil {
		return nil, err
	}
	g := source.Plain()
	g.Node().Count = p.nodes
	g.Edges.Count = p.arcs
	g.Edges.Each = func(yield func(source.Batch) error) error {
		f, err := source.OpenCounted(at.Open, r.Budget.Ledger())
		if err != nil {
			return err
		}
		defer f.Close()
		d := &decoder{ctx: ctx, p: p, b: &bitReader{r: f, buf: make([]byte, 1<<16)}, ledger: r.Budget.Ledger(),
			lists: make([][]int64, p.window+1), yield: yield}
		defer func() { d.ledger.Give(pinned.Sources, d.taken) }()
		node, err := d.all()
		if err != nil {
			if d.stopped {
				return err
			}
			if errors.Is(err, pinned.ErrLimit) {
				return source.Error(f.Path, "", node, "", err)
			}
			return source.Error(f.Path, "", node, "the file is damaged, or belongs to other properties", err)
		}
		return nil
	}
	return g, nil
}

// decoder goes over the lists of all nodes.
type decoder struct {
	ctx    context.Context
	p      properties
	b      *bitReader
	ledger *pinned.Ledger
	lists  [][]int64 // of the last nodes, by node modulo their number
	taken  int64
	arcs   int64
	copied []int64
	more   []int64
	yield  func(source.Batch) error
	batch  source.Batch

	stopped bool // by yield
}

const chunkEdges = 1 << 18

// all decodes all lists. It returns the node at which an error occurred.
func (d *decoder) all() (int64, error) {
	for v := range d.p.nodes {
		if v%1024 == 0 && d.ctx.Err() != nil {
			d.stopped = true
			return v, context.Cause(d.ctx)
		}
		if err := d.list(v); err != nil {
			return v, err
		}
		for _, w := range d.lists[v%int64(len(d.lists))] {
			d.batch.Src, d.batch.Dst = append(d.batch.Src, v), append(d.batch.Dst, w)
		}
		if len(d.batch.Src) >= chunkEdges {
			if err := d.flush(); err != nil {
				return v, err
			}
		}
	}
	if d.arcs != d.p.arcs {
		return -1, fmt.Errorf("it holds %d edges, but the properties say %d", d.arcs, d.p.arcs)
	}
	return -1, d.flush()
}

func (d *decoder) flush() error {
	if len(d.batch.Src) == 0 {
		return nil
	}
	err := d.yield(d.batch)
	d.batch.Src, d.batch.Dst = d.batch.Src[:0], d.batch.Dst[:0]
	d.stopped = err != nil
	return err
}

// number reads a number in the code of a part of the format.
func (d *decoder) number(part string) uint64 {
	switch d.p.codes[part] {
	case "GAMMA":
		return d.b.gamma()
	case "DELTA":
		return d.b.delta()
	case "ZETA":
		return d.b.zeta(d.p.zetaK)
	}
	return d.b.unary()
}

// list decodes the list of a node.
func (d *decoder) list(v int64) error {
	size := int64(d.number("OUTDEGREES"))
	if d.arcs += size; d.b.err != nil || size > d.p.nodes || d.arcs > d.p.arcs {
		return errors.Join(fmt.Errorf("a list of %d nodes: there are %d nodes and %d edges", size, d.p.nodes, d.p.arcs),
			d.b.err)
	}
	slot := &d.lists[v%int64(len(d.lists))]
	if err := d.grow(slot, size); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	d.copied, d.more = d.copied[:0], d.more[:0]
	if d.p.window > 0 {
		if err := d.copy(v, size); err != nil {
			return err
		}
	}
	if err := d.intervals(v, size-int64(len(d.copied))); err != nil {
		return err
	}
	if err := d.residuals(v, size-int64(len(d.copied))-int64(len(d.more))); err != nil {
		return err
	}
	list := append(append(*slot, d.copied...), d.more...)
	slices.Sort(list)
	if list[0] < 0 || list[len(list)-1] >= d.p.nodes {
		return fmt.Errorf("a node between %d and %d, but there are %d nodes", list[0], list[len(list)-1], d.p.nodes)
	}
	*slot = list
	return d.b.err
}

// grow empties a list and gives it room.
func (d *decoder) grow(list *[]int64, size int64) error {
	*list = (*list)[:0]
	if size <= int64(cap(*list)) {
		return nil
	}
	const times = 3 * 8 // the list, and what it is put together from
	room := max(size, 2*int64(cap(*list)))
	if err := d.ledger.Take(pinned.Sources, times*room); err != nil {
		return err
	}
	d.ledger.Give(pinned.Sources, times*int64(cap(*list)))
	d.taken += times * (room - int64(cap(*list)))
	*list = make([]int64, 0, room)
	return nil
}

// copy takes what is copied from an earlier list.
func (d *decoder) copy(v, size int64) error {
	ref := int64(d.number("REFERENCES"))
	if ref == 0 || d.b.err != nil {
		return d.b.err
	}
	if ref > int64(d.p.window) || ref > v {
		return fmt.Errorf("a reference %d nodes back", ref)
	}
	from := d.lists[(v-ref)%int64(len(d.lists))]
	blocks := d.number("BLOCK_COUNT")
	if blocks > uint64(len(from)) {
		return fmt.Errorf("%d blocks of a list of %d", blocks, len(from))
	}
	at := int64(0)
	for i := range blocks {
		n := int64(d.number("BLOCKS"))
		if i > 0 {
			n++
		}
		if n > int64(len(from))-at {
			return fmt.Errorf("a block of %d behind %d of %d", n, at, len(from))
		}
		if i%2 == 0 {
			d.copied = append(d.copied, from[at:at+n]...)
		}
		at += n
	}
	if blocks%2 == 0 {
		d.copied = append(d.copied, from[at:]...)
	}
	if int64(len(d.copied)) > size {
		return fmt.Errorf("%d nodes are copied to a list of %d", len(d.copied), size)
	}
	return nil
}

// intervals reads runs of consecutive nodes.
func (d *decoder) intervals(v, left int64) error {
	if left == 0 || d.p.intervals == 0 {
		return nil
	}
	count := d.b.gamma()
	if count > uint64(left) {
		return fmt.Errorf("%d intervals for %d nodes", count, left)
	}
	prev := int64(0)
	for i := range count {
		first := int64(d.b.gamma())
		if i == 0 {
			first = signed(uint64(first)) + v
		} else {
			first += prev + 1
		}
		n := int64(d.b.gamma()) + int64(d.p.intervals)
		if n > left-int64(len(d.more)) {
			return fmt.Errorf("an interval of %d for %d nodes", n, left-int64(len(d.more)))
		}
		for k := range n {
			d.more = append(d.more, first+k)
		}
		prev = first + n
	}
	return nil
}

// residuals reads the nodes that are left.
func (d *decoder) residuals(v, left int64) error {
	if left == 0 {
		return nil
	}
	at := v + signed(d.number("RESIDUALS"))
	d.more = append(d.more, at)
	for range left - 1 {
		at += int64(d.number("RESIDUALS")) + 1
		d.more = append(d.more, at)
		if d.b.err != nil {
			return d.b.err
		}
	}
	return nil
}
