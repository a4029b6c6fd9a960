//go:build !race

package icebug

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyGraph: see sourcetest.Outcomes.
func TestWhatComesOfAnyGraph(t *testing.T) {
	text := sourcetest.Case{Name: "small", Reader: Reader, At: schemaName, Files: small, Lines: true,
		Requests: []source.Request{{}, {IDs: "names"}}}
	shop := sourcetest.Case{Name: "shop", Reader: Reader, At: schemaName, Files: sourcetest.Within(t, "testdata/shop"),
		Keep: []string{"nodes_user.parquet", "indices_follows.parquet", "schema.cypher"}}
	sourcetest.Outcomes(t, text, shop)
}
