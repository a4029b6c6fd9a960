// Package disk has what loads from files that are larger than memory: the tier of columns that stay on disk (Tier), for
// whose cache Ahead samples batches before they are due, and a topology whose pages are brought as samplers need them
// (Paged). Package diskio reads the files.
package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather/cuda"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/placed"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Options are those of package loader.
type Options struct {
	CacheBytes int64
	Lookahead  int
	PackBytes  int64
}

// Tier is the tier of columns that stay on disk. Each loader has a cache of their rows, and samples ahead for it.
type Tier struct {
	Whole   []*placed.Column // copied to memory as a whole
	OnDisk  []Column
	Loaders int
	Files   *diskio.Reader // once they are placed
	remote  tier.Remote    // has the columns of this dataset, in place of the disk; nil: none
	dataset string         // its id, in hexadecimal
	opt     Options
	log     *slog.Logger

	mu    sync.Mutex
	ahead map[any]*Ahead // by loader

	CacheBytes int64 // of caches, for each loader
}

// InFiles returns those of the columns that lie in files and can be read from there, and their bytes.
func InFiles(columns []*placed.Column, log *slog.Logger) (mapped []*placed.Column, total int64) {
	for _, c := range columns {
		if c.Given {
			continue
		}
		t := c.Store.Column()
		f, _, err := pinned.OpenMapped(t.Bytes())
		switch {
		case err != nil:
			log.Info("a column is read in place, not from disk", "column", c.Name, "reason", err)
			continue
		case t.Len() >= diskio.MaxRows:
			log.Warn("a column has too many rows to be read from disk", "column", c.Name, "rows", t.Len())
		default:
			mapped = append(mapped, c)
			total += int64(len(t.Bytes()))
		}
		_ = f.Close() // nothing was read
	}
	return mapped, total
}

// RowsOf returns where a column's rows lie.
func RowsOf(c *placed.Column) diskio.Mapped {
	return diskio.Mapped{Bytes: c.Store.Column().Bytes(), RowBytes: c.Store.RowBytes()}
}

// Has reports whether a column stays on disk.
func (s *Tier) Has(c *placed.Column) bool {
	return s != nil && slices.ContainsFunc(s.OnDisk, func(d Column) bool { return d.Column == c })
}

// Columns returns what stays on disk.
func (s *Tier) Columns() (list []*placed.Column) {
	for i := 0; s != nil && i < len(s.OnDisk); i++ {
		list = append(list, s.OnDisk[i].Column)
	}
	return list
}

// Column is a column that is read through a cache.
type Column struct {
	Column    *placed.Column
	Index     int // among the reader's
	Layout    diskio.Layout
	Slots     int   // rows of the cache, for each loader
	Lookahead int   // batches of a window, at most
	MostAsks  int64 // rows that a window asks for
	Along     int   // rows that are read along with those of a batch
	Early     int64 // bytes of rows that are read before their batch has a slot
	Pack      diskio.PackOptions
}

// asks returns how many rows a window has room for if no batch asks for more than most.
func (d *Column) asks(most int64) int64 {
	return min(max(d.MostAsks, most), sat.Mul(int64(d.Lookahead), most), diskio.MaxAsks)
}

// cost returns what planning and reading take, with this number of slots, if no batch asks for more than most rows.
func (d *Column) cost(most, slots int64) int64 {
	rows, row, asks := d.Column.Store.Column().Len(), d.Column.Store.RowBytes(), d.asks(most)
	slot := min(alongBytes, sat.Add(leastSlot+rows*row, sat.Mul(most, planBytes)))
	n := sat.Add(diskio.PlanBytes(rows, int64(d.Slots))+diskio.WindowBytes(asks)+d.Early, sat.Mul(slots, slot))
	if pack := min(d.Pack.Memory, d.Pack.Bytes); pack > 0 {
		packed := min(asks+pack/row, d.Pack.Bytes/row)
		n = sat.Add(n, pinned.Options{}.Size(pack)+packed*diskio.PackedBytes)
	}
	return n
}

const (
	leastWindow = 8 << 20  // bytes of a window, if that is more than an eighth of the cache
	leastPacked = 64 << 20 // the same where rows are packed, if that is more than the cache
	alongBytes  = 4 << 20  // of rows that are read along with those of a batch, and of its plan
	leastSlot   = 64 << 10 // of a batch's plan, and planBytes for each row, if that and the column are less
	planBytes   = 128
	mostEarly   = 32 << 20 // bytes of rows read before their batch has a slot, at most; else a quarter of the cache
)

// Split shares the cache among columns: small ones are copied as a whole, the others get room by their size.
func Split(columns []*placed.Column, total int64, o Options, loaders int, log *slog.Logger) *Tier {
	cache := o.CacheBytes
	s := newTier(o, loaders, log)
	bytes := func(c *placed.Column) int64 { return int64(len(RowsOf(c).Bytes)) }
	slices.SortStableFunc(columns, func(a, b *placed.Column) int { return cmp.Compare(bytes(a), bytes(b)) })
	for len(columns) > 0 && (total <= cache || bytes(columns[0]) <= cache/8) {
		n := bytes(columns[0])
		s.Whole, columns = append(s.Whole, columns[0]), columns[1:]
		total, cache = total-n, cache-n
	}
	s.share(columns, total, cache)
	return s
}

// OfRemote is the tier of columns that a Remote has of a dataset, through the same cache. The dataset's id is
// hexadecimal.
func OfRemote(remote tier.Remote, dataset string, columns []*placed.Column, o Options, loaders int,
	log *slog.Logger) *Tier {
	o.PackBytes = 0 // rows are packed on a disk
	s := newTier(o, loaders, log)
	s.remote, s.dataset = remote, dataset
	total := int64(0)
	for _, c := range columns {
		total += int64(len(RowsOf(c).Bytes))
	}
	s.share(columns, total, o.CacheBytes)
	return s
}

func newTier(o Options, loaders int, log *slog.Logger) *Tier {
	return &Tier{Loaders: loaders, opt: o, log: log, ahead: map[any]*Ahead{}}
}

// share divides a cache among the columns that are read through it. total is their bytes.
func (s *Tier) share(columns []*placed.Column, total, cache int64) {
	o := &s.opt
	for i, c := range columns {
		bytes, row := float64(len(RowsOf(c).Bytes)), c.Store.RowBytes()
		part := bytes / float64(total) / float64(s.Loaders)
		share := min(int64(float64(cache)*part), int64(bytes))
		d := Column{Column: c, Index: i, Slots: int(share / row), Along: int(alongBytes / row),
			Lookahead: o.Lookahead, MostAsks: max(leastWindow, share/8) / diskio.AskBytes,
			Early: min(mostEarly, share/4)}
		if o.PackBytes > 0 { // the longer the window, the more of it is packed: worth more than what ids take
			d.MostAsks = max(leastPacked, share) / (diskio.AskBytes + diskio.PackedBytes)
			d.Pack = diskio.PackOptions{Bytes: int64(float64(o.PackBytes) * part), Memory: diskio.PackMemory}
		}
		d.MostAsks = min(d.MostAsks, diskio.MaxAsks)
		s.OnDisk = append(s.OnDisk, d)
		s.CacheBytes += pinned.Options{}.Size(int64(d.Slots) * row)
	}
}

// ReaderOptions is a variable for tests only.
var ReaderOptions diskio.ReaderOptions

func (t *Tier) Cost(b tier.Bound) (m tier.Memory) {
	m.Columns = sat.Mul(t.CacheBytes, int64(b.Loaders))
	n := int64(Presamplers(b.Workers)) * sat.Add(b.Sampled, b.Worker)
	for i := range t.OnDisk {
		n = sat.Add(n, t.OnDisk[i].cost(b.Columns[i].Most, int64(b.Slots)))
	}
	m.Scratch = sat.Add(n, diskio.StagingBytes/int64(b.Loaders))
	return m
}

// Open opens the files, or asks for what a Remote has.
func (t *Tier) Open(ctx context.Context, env tier.Env) error {
	var list []diskio.Mapped
	for _, d := range t.OnDisk {
		list = append(list, RowsOf(d.Column))
	}
	opt := ReaderOptions
	opt.Memory = pinned.Options{Ledger: env.Ledger, Purpose: pinned.Scratch}
	reader, layouts, err := t.reader(ctx, env.Columns, list, opt)
	if err != nil {
		return err
	}
	t.Files = reader
	for i := range t.OnDisk {
		t.OnDisk[i].Layout = layouts[i]
	}
	probe := reader.Probe()
	t.log.Info("columns are read through a cache", "columns", len(t.OnDisk), "engine", probe.Engine,
		"refused", probe.Refused, "buffered", probe.Buffered, "depth", probe.Depth, "cache", t.CacheBytes)
	return nil
}

// reader returns who reads files, or what a Remote has.
func (t *Tier) reader(ctx context.Context, columns []tier.Column, list []diskio.Mapped,
	opt diskio.ReaderOptions) (*diskio.Reader, []diskio.Layout, error) {
	if t.remote == nil {
		return diskio.Open(ctx, list, opt)
	}
	if err := t.remote.Open(ctx, t.dataset, columns); err != nil {
		return nil, nil, err
	}
	return diskio.OpenRemote(t.remote.Fetch, "rows of another machine", list, opt)
}

func (t *Tier) Reader(w tier.Worker) (tier.Reader, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Reader{ahead: t.ahead[w.Loader]}, nil
}

// Stats are those of a loader: see Stats.OnDisk.
func (*Tier) Stats() (tier.Stats, error) { return tier.Stats{}, nil }

func (t *Tier) Close() (err error) {
	if t.remote != nil {
		err = t.remote.Close() // first: it ends what the files wait for
	}
	if t.Files == nil {
		return err
	}
	return errors.Join(err, t.Files.Close())
}

// Reader has the rows of a batch read while the sampler works.
type Reader struct {
	ahead *Ahead
	reads []*diskio.Batch // under way, by column
	wide  []wideRows      // to widen when they are there
	Rows  []uint32        // as in the sample
}

// Expect is of tier.Early: what the batch asks for was planned before. Where that is still being sampled, the wait is
// for the disk as far as its presampler waits for that.
func (r *Reader) Expect(ctx context.Context, s tier.Slot) (waited time.Duration, err error) {
	begin := time.Now()
	b, err := r.ahead.claim(ctx, s.Turn()-1)
	waited = time.Duration(b.awaited * float64(time.Since(begin)))
	if err != nil {
		return waited, err
	}
	r.reads, r.wide = b.reads, r.wide[:0]
	for k, c := range r.ahead.columns {
		wide, err := c.start(s, b, k)
		if err != nil {
			return waited, err
		}
		r.wide = append(r.wide, wide...)
	}
	return waited, nil
}

func (r *Reader) Begin(_ context.Context, _ tier.Slot, w tier.Want) (done bool, err error) {
	r.Rows, err = r.List(r.Rows[:0], w.Array, w.IDs)
	if err != nil {
		return false, err
	}
	return false, r.Check(w.Array, r.Rows)
}

// Hot returns the rows of an array's column that a device keeps; nil for none.
func (r *Reader) Hot(array int) *cuda.HotRows {
	k, _ := r.ahead.find(array)
	return r.ahead.columns[k].hot
}

// List appends the rows that an array wants.
func (r *Reader) List(rows []uint32, array int, ids unified.Tensor) ([]uint32, error) {
	column := r.ahead.opt.Columns[array]
	if err := column.Verified.Check(ids); err != nil {
		return rows, err
	}
	return column.Store.Rows(rows, ids)
}

// Check makes sure that the right rows of an array are being read.
func (r *Reader) Check(array int, rows []uint32) error {
	k, part := r.ahead.find(array)
	if !slices.Equal(rows, r.reads[k].Asked(part)) {
		return fmt.Errorf("%w: it gave other nodes or edges the second time that it made this batch: columns on disk "+
			"need a sampler whose batches follow from the request alone", errs.ErrSampler)
	}
	return nil
}

func (r *Reader) Finish(ctx context.Context, _ tier.Slot) (waited time.Duration, err error) {
	for _, b := range r.reads {
		w, err := b.Finish(ctx)
		if waited += w; err != nil {
			return waited, err
		}
	}
	r.reads = nil
	for _, w := range r.wide {
		w.store.WidenInPlace(w.room, w.rows)
	}
	r.ahead.finished()
	return waited, nil
}

func (r *Reader) Cancel() {
	for _, b := range r.reads {
		b.Cancel()
	}
	r.reads = nil
}

func (*Reader) Close() error { return nil }

// join tells of what samples ahead for a loader.
func (t *Tier) join(loader any, a *Ahead) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead[loader] = a; a == nil {
		delete(t.ahead, loader)
	}
}
