package rng

import "math"

// Log returns the natural logarithm of x, which must be positive, finite and not below 2^-1022, to within one unit in
// the last place. Every processor and device gives the same bits: each operation is rounded once, in this order, and no
// product is fused with a sum. math.Log promises neither.
//
// Method: e_log.c of FreeBSD's msun (Sun Microsystems, 1993).
func Log(x float64) float64 {
	const (
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
		l1    = 6.666666666666735130e-01
		l2    = 3.999999999940941908e-01
		l3    = 2.857142874366239149e-01
		l4    = 2.222219843214978396e-01
		l5    = 1.818357216161805012e-01
		l6    = 1.531383769920937332e-01
		l7    = 1.479819860511658591e-01
	)
	b := math.Float64bits(x)
	above := b - sqrtHalf
	k := float64(int64(above) >> 52)
	f := math.Float64frombits(b-above&^(1<<52-1)) - 1 // x = 2^k * (1+f), sqrt(1/2) <= 1+f < sqrt(2)
	s := f / (2 + f)
	s2 := float64(s * s)
	s4 := float64(s2 * s2)
	t1 := float64(s2 * (l1 + float64(s4*(l3+float64(s4*(l5+float64(s4*l7)))))))
	t2 := float64(s4 * (l2 + float64(s4*(l4+float64(s4*l6)))))
	half := float64(float64(0.5*f) * f)
	return float64(k*ln2Hi) - ((half - (float64(s*(half+(t1+t2))) + float64(k*ln2Lo))) - f)
}

// sqrtHalf is what sqrt(1/2) begins with, as bits.
const sqrtHalf = 0x3FE6A09E00000000

// Unit turns a draw into a number between 0 and 1 that is never 0: (d/2^11 + 1/2) * 2^-53, rounded once. It is 1 for
// the last 2^11 draws.
func Unit(d uint64) float64 {
	return (float64(d>>11) + 0.5) * 0x1p-53
}
