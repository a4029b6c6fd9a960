//go:build !race

package main

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestInfoRecommendsAnOrder looks at graphs whose best order is known.
func TestInfoRecommendsAnOrder(t *testing.T) {
	const seed, side, blocks, block = 7, 200, 400, 100
	r := rand.New(rand.NewPCG(seed, seed))
	var grid, communities [][2]int
	for v := range side * side {
		if v%side+1 < side {
			grid = append(grid, [2]int{v, v + 1})
		}
		if v+side < side*side {
			grid = append(grid, [2]int{v, v + side})
		}
	}
	for v := range blocks * block {
		for range 4 {
			u := v/block*block + r.IntN(block)
			if r.IntN(50) == 0 {
				u = r.IntN(blocks * block)
			}
			communities = append(communities, [2]int{v, u})
		}
	}
	shuffled := func(edges [][2]int, n int) (list [][2]int) {
		number := r.Perm(n)
		for _, e := range edges {
			list = append(list, [2]int{number[e[0]], number[e[1]]})
		}
		return list
	}
	rmat := filepath.Join(t.TempDir(), "rmat.khop")
	must(t, "generate", "rmat", rmat, "--nodes", "65536", "--edges", "1000000")
	for _, c := range []struct {
		name, dataset, want string
	}{
		{"a grid in order", ofEdges(t, grid, side*side), "no"},
		{"a shuffled grid", ofEdges(t, shuffled(grid, side*side), side*side), "rcm community"},
		{"communities in order", ofEdges(t, communities, blocks*block), "no"},
		{"shuffled communities", ofEdges(t, shuffled(communities, blocks*block), blocks*block), "rcm community"},
		{"a power law", rmat, "degree"},
	} {
		order := object(t, "info", c.dataset, "--deep", "--json")["order"].(map[string]any)
		got := order["recommended"].(string)
		expect.That(t, strings.Contains(c.want, got), "%s, seed %d: %q is recommended, not %q: %v", c.name, seed, got,
			c.want, order)
		out := must(t, "info", c.dataset, "--deep")
		_, said, _ := strings.Cut(out, "order: ")
		expect.That(t, strings.HasPrefix(said, "leave it as it is") == (got == "no") &&
			(got == "no" || strings.HasPrefix(said, "khop convert --reorder "+got+": ")), "%s: %s", c.name, out)
	}
}
