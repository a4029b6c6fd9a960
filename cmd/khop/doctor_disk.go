package main

import (
	"context"
	"fmt"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/gather/disk"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/diskio"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/unified"
)

// diskReport says how columns on disk would be read.
type diskReport struct {
	Engine  string `json:"engine"`  // "io_uring" or "threads"
	Refused string `json:"refused"` // why it is not io_uring
	// Probe is what the disk gives under the dataset's largest column; null without a dataset.
	Probe *disk.Probe `json:"probe"`
}

// probeDisk finds out how columns of a dataset, which may be nil, would be read from disk.
func probeDisk(ctx context.Context, ds *formats.Dataset) (d diskReport) {
	d.Engine, d.Refused = diskio.Engine()
	if ds == nil {
		return d
	}
	c := largestColumn(ds.Graph())
	if !c.Valid() || c.RowBytes() == 0 {
		return d
	}
	r, _, err := diskio.Open(ctx, []diskio.Mapped{{Bytes: c.Bytes(), RowBytes: c.RowBytes()}}, diskio.ReaderOptions{})
	if err != nil {
		d.Refused = err.Error()
		return d
	}
	p := r.Probe()
	d.Probe = &p
	if err := r.Close(); err != nil {
		d.Refused = err.Error()
	}
	return d
}

func largestColumn(g *graph.Graph) (largest unified.Tensor) {
	s := g.Schema()
	for t := range s.Nodes {
		for _, c := range s.Nodes[t].Columns {
			if x, _ := g.NodeColumn(t, c.Name); len(x.Bytes()) > len(largest.Bytes()) {
				largest = x
			}
		}
	}
	return largest
}

// describeProbe says in a few words how a disk is read.
func describeProbe(p *disk.Probe) string {
	how := "past the page cache"
	if p.Buffered != "" {
		how = "through the page cache (" + p.Buffered + ")"
	}
	engine := p.Engine
	if p.Refused != "" {
		engine += " (" + p.Refused + ")"
	}
	return fmt.Sprintf("%s, depth %d, %s", engine, p.Depth, how)
}

func (d *diskReport) row() (path, why string) {
	path, why = d.Engine, "--residence disk reads columns so"
	if d.Refused != "" {
		why = d.Refused
	}
	if p := d.Probe; p != nil {
		path = describeProbe(p)
		if why = "the file is too small to try"; p.Small > 0 {
			why = fmt.Sprintf("%.0f requests/s of %s, %s/s in requests of %s", p.Small, machine.Bytes(p.Page),
				machine.Bytes(int64(p.Large)), machine.Bytes(p.Most))
		}
	}
	return path, why
}
