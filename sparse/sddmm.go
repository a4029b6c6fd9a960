package sparse

import (
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/unified"
)

// lanes is the number of partial sums of a dot product: partial l takes columns l, l+16, l+32, .., each product rounded
// before it is added; then halves are added: 8 to 8, 4 to 4, 2 to 2, 1 to 1.
const lanes = 16

// SDDMM writes the dot product of row i of u and row j of v for each edge (i, j) of a: a dense product sampled at the
// edges, and the gradient of SpMM with respect to its values (u = dy, v = x).
//
// Shapes: out float32 [a.Edges()] or [heads, a.Edges()], written; u float32 [a.Rows(), ...]; v float32 [a.Cols(), ...]
// of the same width. With heads, the columns are cut into as many equal parts. ErrShape names what does not fit.
// Result: 16 partial sums, the same on every processor.
func (p *Pool) SDDMM(out unified.Tensor, a *Matrix, u, v unified.Tensor) error {
	if err := checkEnds(out, a, u, v); err != nil {
		return err
	}
	heads := headsOf(out)
	if u.Width() != v.Width() || u.Width()%heads != 0 {
		return fmt.Errorf("%w: %d heads over rows of %v and %v", ErrShape, heads, u, v)
	}
	if a.edges == 0 {
		return nil
	}
	return p.sddmm(variantFor(a), out, a, u, v)
}

func (p *Pool) sddmm(variant variant, out unified.Tensor, a *Matrix, u, v unified.Tensor) error {
	heads, width := headsOf(out), int(u.Width())
	step := min(max(a.rows/int64(8*p.workers), 1), max(1<<18*a.rows/((a.edges+1)*int64(width+1)), 1))
	return p.Split(a.rows, step, func(lo, hi int64) {
		for h := range int(heads) {
			r := dotRun(out, a, u, v, h, width/int(heads))
			if variant == plain {
				r.plain(a, lo, hi)
			} else {
				r.vectors(variant, lo, hi)
			}
		}
	})
}

// SDDMMAdd writes the sum of u[i, h] and v[j, h] for each edge (i, j) of a and each head h.
//
// Shapes: out float32 [heads, a.Edges()], written; u float32 [a.Rows(), heads]; v float32 [a.Cols(), heads]. With one
// head all of them may have one dimension. ErrShape names what does not fit.
func (p *Pool) SDDMMAdd(out unified.Tensor, a *Matrix, u, v unified.Tensor) error {
	if err := checkEnds(out, a, u, v); err != nil {
		return err
	}
	heads := headsOf(out)
	if u.Width() != heads || v.Width() != heads {
		return fmt.Errorf("%w: %d heads of %v and %v", ErrShape, heads, u, v)
	}
	to, from, other := floats(out), floats(u), floats(v)
	return p.Split(a.rows, 1024, func(lo, hi int64) {
		for i := lo; i < hi; i++ {
			for e := a.start(i); e < a.start(i+1); e++ {
				j := a.column(e)
				for h := range heads {
					to[h*a.edges+e] = from[i*heads+h] + other[j*heads+h]
				}
			}
		}
	})
}

// checkEnds refuses operands that do not fit an operation from the ends of edges to the edges.
func checkEnds(out unified.Tensor, a *Matrix, u, v unified.Tensor) error {
	switch {
	case !perEdge(out, a):
		return fmt.Errorf("%w: the result is %v, not float32 of %d edges on the host", ErrShape, out, a.edges)
	case !dense(u) || u.Len() != a.rows:
		return fmt.Errorf("%w: u is %v, not float32 on the host with %d rows", ErrShape, u, a.rows)
	case !dense(v) || v.Len() != a.cols:
		return fmt.Errorf("%w: v is %v, not float32 on the host with %d rows", ErrShape, v, a.cols)
	case overlap(out, u) || overlap(out, v):
		return fmt.Errorf("%w: the result shares memory with u or v", ErrShape)
	}
	return nil
}

// sddmmRun is what a kernel of dot products reads. Its layout is known to tools/asm.
type sddmmRun struct {
	u, v             unsafe.Pointer // of the head in row 0
	out              unsafe.Pointer // of edge 0
	indptr           unsafe.Pointer
	indices, last    unsafe.Pointer
	uStride, vStride int // bytes of a row
	ahead            int // bytes of the indices
	wide             uint64
	blocks           int    // bytes of whole blocks of 16 columns
	mask             uint64 // of the columns left: bits, or the address of words
	index            int    // bytes of an index, of which the lower 4 count
	width            int
}

func dotRun(out unified.Tensor, a *Matrix, u, v unified.Tensor, head, width int) sddmmRun {
	r := sddmmRun{uStride: int(u.RowBytes()), vStride: int(v.RowBytes()), ahead: 8 * a.indexBytes(), width: width,
		index: a.indexBytes(), blocks: width / lanes * lanes * 4, out: unsafe.Add(address(out), 4*int64(head)*a.edges)}
	if width > 0 {
		r.u, r.v = unsafe.Add(address(u), 4*head*width), unsafe.Add(address(v), 4*head*width)
	}
	r.indptr, r.wide, r.indices, r.last = a.pointers()
	return r
}

// plain is the specification of the kernels.
func (r *sddmmRun) plain(a *Matrix, lo, hi int64) {
	for i := lo; i < hi; i++ {
		u := unsafe.Slice((*float32)(unsafe.Add(r.u, i*int64(r.uStride))), r.width)
		for e := a.start(i); e < a.start(i+1); e++ {
			v := unsafe.Slice((*float32)(unsafe.Add(r.v, a.column(e)*int64(r.vStride))), r.width)
			*(*float32)(unsafe.Add(r.out, 4*e)) = dot(u, v)
		}
	}
}

func dot(u, v []float32) float32 {
	var part [lanes]float32
	for k, x := range u {
		part[k%lanes] += float32(x * v[k])
	}
	for n := lanes / 2; n > 0; n /= 2 {
		for l := range n {
			part[l] += part[l+n]
		}
	}
	return part[0]
}
