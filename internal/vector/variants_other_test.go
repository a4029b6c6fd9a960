//go:build !amd64 || purego

package vector

type variant struct {
	name   string
	choose func() (back func())
}

// variants returns what this processor can compute by.
func variants() []variant { return []variant{{"plain", func() func() { return func() {} }}} }
