//go:build !amd64 || purego

package vector

// available returns the kernels that this processor runs.
func available() []*kernels { return []*kernels{plain} }

func extreme(y []float32, arg []int32, least bool, r Edges) { extremePlain(y, arg, least, r) }
