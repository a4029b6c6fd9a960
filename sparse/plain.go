package sparse

import (
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// plain sums rows lo to hi in Go. It is the specification of the kernels, and the only variant without assembly.
func (t *spmmTask) plain(own *ownRun, lo, hi int64) {
	a, r := t.a, &t.run
	n, halves := a.cols*t.width, t.halves()
	var x []float32
	if halves && int64(len(own.wide)) < t.width {
		own.wide = make([]float32, t.width)
	}
	if !halves {
		x = unsafe.Slice((*float32)(r.x), n)
	}
	y := unsafe.Slice((*float32)(t.y), a.rows*t.width)
	var weights, scale []float32
	if r.step > 0 {
		weights = unsafe.Slice((*float32)(r.weights), a.edges*t.heads)
	}
	if r.scale != nil {
		scale = unsafe.Slice((*float32)(r.scale), a.rows)
	}
	for i := lo; i < hi; i++ {
		row := y[i*t.width : (i+1)*t.width]
		clear(row)
		for e := a.start(i); e < a.start(i+1); e++ {
			j := a.column(e)
			from := own.wide
			if halves {
				t.widen(own.wide, j)
			} else {
				from = x[j*t.width:][:t.width]
			}
			if weights == nil {
				for k := range row {
					row[k] += from[k]
				}
				continue
			}
			for h, n := int64(0), t.width/t.heads; h < t.heads; h++ {
				w := weights[h*a.edges+e]
				for k := h * n; k < (h+1)*n; k++ {
					row[k] += float32(w * from[k]) // the conversion forbids a fused multiply-add
				}
			}
		}
		if scale != nil {
			for k := range row {
				row[k] *= scale[i]
			}
		}
	}
}

// widen writes row j of x, which has 16 bits, as float32.
func (t *spmmTask) widen(to []float32, j int64) {
	n := t.a.cols * t.width
	if t.dtype == unified.Float16 {
		for k, h := range unsafe.Slice((*unified.Half)(t.run.x), n)[j*t.width:][:t.width] {
			to[k] = fromHalf(h)
		}
		return
	}
	for k, h := range unsafe.Slice((*unified.BHalf)(t.run.x), n)[j*t.width:][:t.width] {
		to[k] = h.Float32()
	}
}

// column returns the source of an edge.
func (a *Matrix) column(e int64) int64 {
	if a.indices64 != nil {
		return a.indices64[e]
	}
	return int64(a.indices32[e])
}
