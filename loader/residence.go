package loader

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/khop-gnn/khop/gather"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
)

// diskSplit says which columns of a source stay on disk, and what memory that takes.
type diskSplit struct {
	whole   []*column // copied to memory as a whole
	onDisk  []columnOnDisk
	loaders int
	reader  *diskio.Reader // once they are placed

	wholeBytes int64 // of copies, once for all loaders
	cacheBytes int64 // of caches, for each loader
}

// has reports whether a column stays on disk.
func (s *diskSplit) has(c *column) bool {
	return s != nil && slices.ContainsFunc(s.onDisk, func(d columnOnDisk) bool { return d.column == c })
}

// columnOnDisk is a column that is read through a cache.
type columnOnDisk struct {
	column   *column
	index    int // among the reader's
	layout   diskio.Layout
	slots    int   // rows of the cache, for each loader
	mostAsks int64 // rows that a window asks for
	along    int   // rows that are read along with those of a batch
	early    int64 // bytes of rows that are read before their batch has a slot
	pack     diskio.PackOptions
}

const (
	leastWindow = 16 << 20 // bytes of a window, if that is more than a quarter of the cache
	alongBytes  = 4 << 20  // of rows that are read along with those of a batch
	mostEarly   = 32 << 20 // bytes of rows read before their batch has a slot, at most; else a quarter of the cache
)

// settleResidence decides which columns stay on disk, for as many loaders that share them.
func (r *recipe) settleResidence(columns []*column, loaders int) error {
	o := &r.opt
	if o.Residence == Disk && o.Columns.Widen {
		return fmt.Errorf("%w: Widen: rows that are read from disk are delivered as they are stored", ErrOptions)
	}
	if o.Residence != Disk && o.Residence != Auto {
		return nil
	}
	mapped, total := r.inFiles(columns)
	cache := cmp.Or(o.Disk.CacheBytes, r.defaultCache())
	paged := r.pageTopology(cache, loaders)
	if o.Residence == Auto {
		o.Residence = Mapped
		need := (&Placed{recipe: r, columns: columns}).sourceBytes().Total()
		if o.Columns.Widen || need < r.memoryRoom()/10*9 || len(mapped) == 0 && paged == nil {
			return nil
		}
		o.Residence = Disk
	}
	o.Disk.CacheBytes, r.paged = cache, paged
	r.split = splitColumns(mapped, total, o, loaders)
	if r.paged != nil && r.anyWorkers {
		o.Workers = pagedWorkers()
	}
	return nil
}

// memoryRoom returns the memory that there is for the loaders.
func (r *recipe) memoryRoom() int64 { return cmp.Or(r.limit(), probeMachine().Room()) }

// defaultCache returns the default of Options.Disk.CacheBytes.
func (r *recipe) defaultCache() int64 { return max(r.memoryRoom()/2, 1) }

// inFiles returns the columns that lie in files and can be read from there, and their bytes.
func (r *recipe) inFiles(columns []*column) (mapped []*column, total int64) {
	o := &r.opt
	for _, c := range columns {
		t := c.store.Column()
		f, _, err := pinned.OpenMapped(t.Bytes())
		switch {
		case err != nil:
			o.log().Info("a column is read where it lies, and not from disk", "column", c.name, "reason", err)
			continue
		case t.Len() >= diskio.MaxRows:
			o.log().Warn("a column has too many rows to be read from disk", "column", c.name, "rows", t.Len())
		default:
			mapped = append(mapped, c)
			total += int64(len(t.Bytes()))
		}
		_ = f.Close() // nothing was read
	}
	return mapped, total
}

// splitColumns shares the cache among columns: small ones are copied as a whole, the others get room by their size.
func splitColumns(columns []*column, total int64, o *Options, loaders int) *diskSplit {
	cache := o.Disk.CacheBytes
	s := &diskSplit{loaders: loaders}
	bytes := func(c *column) int64 { return int64(len(c.mapped().Bytes)) }
	slices.SortStableFunc(columns, func(a, b *column) int { return cmp.Compare(bytes(a), bytes(b)) })
	for len(columns) > 0 && (total <= cache || bytes(columns[0]) <= cache/8) {
		n := bytes(columns[0])
		s.whole, columns = append(s.whole, columns[0]), columns[1:]
		s.wholeBytes += pinned.Options{}.Size(n)
		total, cache = total-n, cache-n
	}
	for i, c := range columns {
		part, row := float64(bytes(c))/float64(total)/float64(loaders), c.store.RowBytes()
		share := int64(float64(cache) * part)
		window := share / 4
		if o.Disk.PackBytes > 0 { // the longer the window, the more of it is packed: worth more than what ids take
			window = share
		}
		window = max(leastWindow, window) / diskio.AskBytes
		d := columnOnDisk{column: c, index: i, slots: int(share / row), along: int(alongBytes / row), mostAsks: 1,
			early: min(mostEarly, share/4)}
		for d.mostAsks <= window/2 {
			d.mostAsks *= 2
		}
		if o.Disk.PackBytes > 0 {
			d.pack = diskio.PackOptions{Bytes: int64(float64(o.Disk.PackBytes) * part), Memory: diskio.PackMemory}
		}
		s.onDisk = append(s.onDisk, d)
		s.cacheBytes += pinned.Options{}.Size(int64(d.slots) * row)
	}
	return s
}

// mapped returns where a column's rows lie.
func (c *column) mapped() diskio.Mapped {
	return diskio.Mapped{Bytes: c.store.Column().Bytes(), RowBytes: c.store.RowBytes()}
}

// arraysOf returns the arrays of a batch that are rows of a column.
func (r *recipe) arraysOf(c *column) (list []*Array) {
	for i := range r.arrays {
		if a := &r.arrays[i]; a.IsColumn() && keyOfColumn(a) == (columnKey{c.name, c.nodeType}) {
			list = append(list, a)
		}
	}
	return list
}

// copyWhole copies what is small.
func (s *diskSplit) copyWhole(ctx context.Context, p *Placed, owned *[]io.Closer) error {
	done, total := int64(0), int64(0)
	for _, col := range s.whole {
		total += int64(len(col.store.Column().Bytes()))
	}
	for _, col := range s.whole {
		to, region, err := gather.Resident(ctx, col.store.Column(), pinned.Options{Ledger: &p.ledger,
			Purpose: pinned.Columns}, func(n int64) { p.recipe.opt.progress("columns", done+n, total) })
		if err == nil {
			*owned = append(*owned, region)
			col.store, err = gather.NewStore(to)
		}
		if err != nil {
			return err
		}
		done += int64(len(to.Bytes()))
	}
	return nil
}

// open opens the files of what stays on disk.
func (s *diskSplit) open(ctx context.Context, p *Placed, owned *[]io.Closer) error {
	if len(s.onDisk) == 0 {
		return nil
	}
	var list []diskio.Mapped
	for _, d := range s.onDisk {
		list = append(list, d.column.mapped())
	}
	opt := readerOptions
	opt.Memory = pinned.Options{Ledger: &p.ledger, Purpose: pinned.Scratch}
	reader, layouts, err := diskio.Open(ctx, list, opt)
	if err != nil {
		return err
	}
	*owned, s.reader = append(*owned, reader), reader
	for i := range s.onDisk {
		s.onDisk[i].layout = layouts[i]
	}
	probe := reader.Probe()
	p.recipe.opt.log().Info("columns are read from disk", "columns", len(s.onDisk), "engine", probe.Engine, "refused",
		probe.Refused, "buffered", probe.Buffered, "depth", probe.Depth, "cache", s.cacheBytes)
	return nil
}

// readerOptions is a variable for tests only.
var readerOptions diskio.ReaderOptions

// diskMemory returns what topology and columns on disk take beside caches of rows in a loader. slotBytes and scratch
// are what a slot and a sampler take: for the most that batches can need, or for what is expected of them.
func (r *recipe) diskMemory(slotBytes, scratch int64) (n int64) {
	if n = r.pagedMemory(); r.split == nil || len(r.split.onDisk) == 0 {
		return n
	}
	o := &r.opt
	n += int64(scouts(o.Workers)) * sat.Add(slotBytes, scratch)
	for _, d := range r.split.onDisk {
		rows := int64(0)
		for _, a := range r.arraysOf(d.column) {
			rows = sat.Add(rows, a.Most)
		}
		batches := int64(o.Workers + o.Tuning.Prefetch)
		n = sat.Add(n, diskio.PlanBytes(d.column.store.Column().Len(), int64(d.slots)))
		n = sat.Add(n, max(d.mostAsks*diskio.AskBytes, diskio.WindowBytes(min(rows, 1<<40))))
		n = sat.Add(n, sat.Add(d.early+d.pack.Memory, sat.Mul(batches, alongBytes)))
	}
	return sat.Add(n, diskio.StagingBytes/int64(r.split.loaders))
}

// withoutColumns returns the bytes of a slot that is only sampled into, at most.
func (r *recipe) withoutColumns() (n int64) {
	for i := range r.arrays {
		if a := &r.arrays[i]; a.hasMemory() && !a.IsColumn() {
			n = sat.Add(n, pinned.Options{}.Size(min(a.mostBytes(), 1<<60)))
		}
	}
	return n
}
