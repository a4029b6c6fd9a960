package synthetic

import (
	"errors"
	"fmt"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestLimitsOfOptionsAreKeptToTheOne, and are in the error.
func TestLimitsOfOptionsAreKeptToTheOne(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64
		set  func(n int64) Options
	}{
		{"Nodes", 1 << 50, func(n int64) Options { return Options{Nodes: n, Edges: 1} }},
		{"Edges", 1 << 50, func(n int64) Options { return Options{Edges: n} }},
		{"Features", 1 << 20, func(n int64) Options { return Options{Features: int(n)} }},
		{"Classes", 1 << 20, func(n int64) Options { return Options{Nodes: 1 << 21, Classes: int(n)} }},
		{"Workers", 1<<15 - 1, func(n int64) Options { return Options{Workers: int(n)} }},
	} {
		for n, good := range map[int64]bool{c.most: true, c.most + 1: false, -2: false, -1: c.name != "Workers"} {
			least := -1
			if c.name == "Workers" {
				least = 0
			}
			want := fmt.Sprintf("%v: %s is %d: must be %d to %d", ErrOptions, c.name, n, least, c.most)
			_, err := c.set(n).resolve(SBM)
			if c.name == "Nodes" && n == -1 { // an edge without nodes
				good = false
			} else if !good && (err == nil || err.Error() != want) {
				t.Errorf("%d %s: %v, want %s", n, c.name, err, want)
			}
			expect.That(t, (err == nil) == good && (err == nil || errors.Is(err, ErrOptions)), "%d %s: %v", n, c.name,
				err)
		}
	}
}
