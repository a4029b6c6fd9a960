//go:build !race

package graphar

import (
	"maps"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyGraph: see sourcetest.Outcomes.
func TestWhatComesOfAnyGraph(t *testing.T) {
	files := small()
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasPrefix(name, byUser) })
	c := sourcetest.Case{Name: "shop", Reader: Reader, At: "shop.graph.yml", Files: files, Lines: true}
	for name := range files {
		if strings.HasSuffix(name, "chunk1") || name == "buys.edge.yml" || name == "user.vertex.yml" {
			c.Keep = append(c.Keep, name)
		}
	}
	sourcetest.Outcomes(t, c)
}
