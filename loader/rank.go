package loader

import (
	"fmt"
	"os"

	"github.com/khop-gnn/khop/internal/launcher"
)

// FindRank returns Options.Rank and Options.WorldSize as the launcher of this process has put them into the
// environment (docs/machines.md, "Which rank"), and what says so; else 0 of 1. It returns ErrOptions for a place that
// cannot be, and where ranks are counted but this one has no number.
func FindRank() (rank, worldSize int, from string, err error) {
	p, err := launcher.Find(os.Getenv)
	if err != nil {
		return 0, 1, "", fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return p.Rank, p.Size, p.From, nil
}
