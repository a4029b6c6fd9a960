package diskio

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/gather/disk"
)

// probeTime is how long a reader tries each of a few shapes of requests.
const probeTime = 25 * time.Millisecond

// describe says how the reader reads.
func (r *Reader) describe() disk.Probe {
	p := disk.Probe{Engine: "io_uring", Refused: r.refused, Depth: r.opt.Depth, Shape: r.opt.Shape}
	switch r.engine.(type) {
	case *threads:
		p.Engine = "threads"
	case *lanes:
		p.Engine = "remote"
	}
	for _, f := range r.files {
		if !f.direct {
			p.Buffered = f.why
		}
	}
	setDefault(&p.Gap, defaultGap)
	return p
}

// try finds out what depth and size of requests suit the disk, with the largest of its files.
func (r *Reader) try(ctx context.Context) {
	p := &r.probe
	largest := slices.MaxFunc(r.files, func(a, b *File) int { return cmp.Compare(a.size, b.size) })
	if largest.size < 64*p.Most {
		return
	}
	best := 0.0
	for _, depth := range []int{16, 32, 64, 128} { // the least that gives nearly all
		if depth > r.opt.Depth {
			break
		}
		if rate := r.rate(ctx, largest, depth, p.Page); rate > 1.1*best || best == 0 {
			best, p.Depth = rate, depth
		}
	}
	p.Small, r.limit = best, int64(p.Depth)
	p.Large = r.rate(ctx, largest, max(p.Depth/4, 8), p.Most) * float64(p.Most)
	p.Gap = gap(p)
}

// gap returns how many bytes take the disk as long as a request does, in pages, but no more than a quarter of one.
func gap(p *disk.Probe) int64 {
	each, perByte := p.Seconds(1, 0), p.Seconds(0, 1)
	gap := min(each/max(perByte, 1e-12), float64(p.Most/4))
	return int64(gap) / p.Page * p.Page
}

// defaultGap is what a request costs, in bytes, where nothing was tried.
const defaultGap = 8 << 10

// rate returns how many requests of a size a second the disk serves at random places of a file.
func (r *Reader) rate(ctx context.Context, f *File, depth int, bytes int64) float64 {
	var all sync.WaitGroup
	begin, counts := time.Now(), make([]int, depth)
	places := f.size / bytes
	for i := range depth {
		all.Add(1)
		go func() {
			defer all.Done()
			at := rand.New(rand.NewPCG(uint64(i), uint64(begin.UnixNano())))
			for time.Since(begin) < probeTime && ctx.Err() == nil {
				row := uint32(at.Int64N(places))
				layout := &Layout{RowBytes: bytes, Rows: places, Shape: r.opt.Shape}
				plan := &Plan{Reads: []Read{{Row: row}}}
				layout.merge(plan)
				t := &transfer{file: f, layout: layout, plan: plan, rowAt: func(uint32) []byte { return nil },
					done: make(chan struct{})}
				r.start(t)
				if t.wait(ctx) != nil {
					return
				}
				counts[i]++
			}
		}()
	}
	all.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return float64(n) / time.Since(begin).Seconds()
}

// Engine returns which engine the system allows, and why it is not io_uring.
func Engine() (name, refused string) {
	r := &Reader{opt: ReaderOptions{Depth: 1}}
	e, err := newRing(r)
	if err != nil {
		return "threads", err.Error()
	}
	_ = e.close()
	return "io_uring", ""
}
