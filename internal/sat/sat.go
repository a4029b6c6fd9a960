// Package sat computes with sizes and bounds, which are not negative. It saturates: a result beyond Most is Most.
package sat

// Most is the greatest result of Mul. Twice as much is still an int64, so that the sum of two is one.
const Most = 1<<62 - 1

// Add returns a + b, each up to Most.
func Add(a, b int64) int64 { return min(a, Most) + min(b, Most) }

// Mul returns a * b, up to Most.
func Mul(a, b int64) int64 {
	if a != 0 && b > Most/a {
		return Most
	}
	return a * b
}
