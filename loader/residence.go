package loader

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/pinned"
)

// diskTier is the tier of columns that stay on disk. Each loader has a cache of their rows, and samples ahead for it.
type diskTier struct {
	whole   []*column // copied to memory as a whole
	onDisk  []columnOnDisk
	loaders int
	reader  *diskio.Reader // once they are placed
	log     *slog.Logger

	mu    sync.Mutex
	ahead map[any]*ahead // by loader

	cacheBytes int64 // of caches, for each loader
}

// has reports whether a column stays on disk.
func (s *diskTier) has(c *column) bool {
	return s != nil && slices.ContainsFunc(s.onDisk, func(d columnOnDisk) bool { return d.column == c })
}

// columns returns what stays on disk.
func (s *diskTier) columns() (list []*column) {
	for i := 0; s != nil && i < len(s.onDisk); i++ {
		list = append(list, s.onDisk[i].column)
	}
	return list
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
		if c.given {
			continue
		}
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
func splitColumns(columns []*column, total int64, o *Options, loaders int) *diskTier {
	cache := o.Disk.CacheBytes
	s := &diskTier{loaders: loaders, log: o.log(), ahead: map[any]*ahead{}}
	bytes := func(c *column) int64 { return int64(len(c.mapped().Bytes)) }
	slices.SortStableFunc(columns, func(a, b *column) int { return cmp.Compare(bytes(a), bytes(b)) })
	for len(columns) > 0 && (total <= cache || bytes(columns[0]) <= cache/8) {
		n := bytes(columns[0])
		s.whole, columns = append(s.whole, columns[0]), columns[1:]
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

// readerOptions is a variable for tests only.
var readerOptions diskio.ReaderOptions

// withoutColumns returns the bytes of a slot that is only sampled into, at most.
func (r *recipe) withoutColumns() (n int64) {
	for i := range r.arrays {
		if a := &r.arrays[i]; a.hasMemory() && !a.IsColumn() {
			n = sat.Add(n, pinned.Options{}.Size(min(a.mostBytes(), 1<<60)))
		}
	}
	return n
}
