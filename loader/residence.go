package loader

import (
	"cmp"

	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/sat"
	"github.com/khop-gnn/khop/loader/internal/tiers"
	"github.com/khop-gnn/khop/pinned"
)

// settleResidence decides which columns stay on disk, for as many loaders that share them.
func (r *recipe) settleResidence(columns []*tiers.Column, loaders int) error {
	o := &r.opt
	if o.Residence == Disk && o.Columns.Widen {
		return option.Errorf(ErrOptions, o, "Columns.Widen",
			": rows that are read from disk are delivered as they are stored")
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
	r.split = tiers.SplitColumns(mapped, total, tiers.DiskOptions(o.Disk), loaders, o.log())
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
func (r *recipe) inFiles(columns []*tiers.Column) (mapped []*tiers.Column, total int64) {
	o := &r.opt
	for _, c := range columns {
		if c.Given {
			continue
		}
		t := c.Store.Column()
		f, _, err := pinned.OpenMapped(t.Bytes())
		switch {
		case err != nil:
			o.log().Info("a column is read where it lies, and not from disk", "column", c.Name, "reason", err)
			continue
		case t.Len() >= diskio.MaxRows:
			o.log().Warn("a column has too many rows to be read from disk", "column", c.Name, "rows", t.Len())
		default:
			mapped = append(mapped, c)
			total += int64(len(t.Bytes()))
		}
		_ = f.Close() // nothing was read
	}
	return mapped, total
}

// arraysOf returns the arrays of a batch that are rows of a column.
func (r *recipe) arraysOf(c *tiers.Column) (list []*Array) {
	for i := range r.arrays {
		if a := &r.arrays[i]; a.IsColumn() && keyOfColumn(a) == (columnKey{c.Name, c.NodeType}) {
			list = append(list, a)
		}
	}
	return list
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
