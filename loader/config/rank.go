package config

import (
	"fmt"
	"os"

	"github.com/khop-gnn/khop/internal/launcher"
	"github.com/khop-gnn/khop/loader"
)

// FindRank returns Options.Rank and Options.WorldSize as the launcher of this process has set them in the environment
// (docs/machines.md, "Which rank"), and which variables have them; without a launcher rank 0 of 1. It returns
// loader.ErrOptions for an impossible rank, and if there is a number of ranks but none for this process.
func FindRank() (rank, worldSize int, from string, err error) {
	p, err := launcher.Find(os.Getenv)
	if err != nil {
		return 0, 1, "", fmt.Errorf("%w: %w", loader.ErrOptions, err)
	}
	return p.Rank, p.Size, p.From, nil
}
