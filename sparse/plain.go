package sparse

import "unsafe"

// plain sums rows lo to hi in Go. It is the specification of the kernels, and what remains where there is no assembly.
func (t *spmmTask) plain(lo, hi int64) {
	a, r := t.a, &t.run
	x := unsafe.Slice((*float32)(r.x), a.cols*t.width)
	y := unsafe.Slice((*float32)(t.y), a.rows*t.width)
	var weights, scale []float32
	if r.weights != nil {
		weights = unsafe.Slice((*float32)(r.weights), a.edges*t.heads)
	}
	if r.scale != nil {
		scale = unsafe.Slice((*float32)(r.scale), a.rows)
	}
	for i := lo; i < hi; i++ {
		row := y[i*t.width : (i+1)*t.width]
		clear(row)
		for e := a.start(i); e < a.start(i+1); e++ {
			from := x[a.column(e)*t.width:][:len(row)]
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

// column returns the source of an edge.
func (a *Matrix) column(e int64) int64 {
	if a.indices64 != nil {
		return a.indices64[e]
	}
	return int64(a.indices32[e])
}
