package relbench

import (
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
)

// TestWhatComesOfAnyDatabase: see sourcetest.Outcomes.
func TestWhatComesOfAnyDatabase(t *testing.T) {
	sourcetest.Outcomes(t, sourcetest.Case{Name: "shop", Reader: Reader, At: "manifest.yaml", Lines: true,
		Files: sourcetest.Within(t, "testdata/shop"),
		Keep: []string{"db/returns.csv", "db/users.csv", "tasks/next/manifest.yaml", "tasks/next/test.csv",
			"tasks/churn/val.csv",
			"tasks/churn/test.csv"},
		Requests: []source.Request{{}, {UpTo: "all"}, {UpTo: "2024-01-03T10:00:00", Task: "churn"}}})
}
