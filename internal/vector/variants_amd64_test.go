//go:build !purego

package vector

type variant struct {
	name   string
	choose func() (back func())
}

// variants returns what this processor can compute by.
func variants() []variant {
	var all []variant
	for have, name := range map[int]string{64: "avx512", 32: "avx2", 0: "plain"} {
		if have <= bytes {
			all = append(all, variant{name, func() func() {
				best := bytes
				bytes = have
				return func() { bytes = best }
			}})
		}
	}
	return all
}
