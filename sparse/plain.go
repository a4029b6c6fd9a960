package sparse

import (
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// plain sums rows lo to hi in Go. It is the specification of the kernels, and what remains where there is no assembly.
func (t *spmmTask) plain(lo, hi int64) {
	a, r := t.a, &t.run
	x := t.reader()
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
			from := x(a.column(e))
			if weights == nil {
				for k, v := range from {
					row[k] += v
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

// reader returns what reads a row of x as float32; it is valid until the next is read.
func (t *spmmTask) reader() func(j int64) []float32 {
	x, n := t.run.x, t.a.cols*t.width
	switch t.dtype {
	case unified.Float16:
		return widening(unsafe.Slice((*unified.Half)(x), n), t.width, fromHalf)
	case unified.BFloat16:
		return widening(unsafe.Slice((*unified.BHalf)(x), n), t.width, unified.BHalf.Float32)
	}
	all := unsafe.Slice((*float32)(x), n)
	return func(j int64) []float32 { return all[j*t.width:][:t.width] }
}

func widening[H unified.Half | unified.BHalf](all []H, width int64, f func(H) float32) func(j int64) []float32 {
	row := make([]float32, width)
	return func(j int64) []float32 {
		for k, h := range all[j*width:][:width] {
			row[k] = f(h)
		}
		return row
	}
}

// column returns the source of an edge.
func (a *Matrix) column(e int64) int64 {
	if a.indices64 != nil {
		return a.indices64[e]
	}
	return int64(a.indices32[e])
}
