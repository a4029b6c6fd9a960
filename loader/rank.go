package loader

import (
	"fmt"
	"os"

	"github.com/khop-gnn/khop/internal/launcher"
)

// share is the part of an epoch that one of several ranks has.
type share struct {
	rank, world uint64
	remainder   Remainder
}

// rounds returns how many batches the rank has of n that all ranks share.
func (s share) rounds(n uint64) uint64 {
	switch s.remainder {
	case Drop:
		return n / s.world
	case Short:
		return (n + s.world - 1 - s.rank) / s.world
	default:
		return (n + s.world - 1) / s.world
	}
}

// FindRank returns Options.Rank and Options.WorldSize as the launcher of this process has set them in the environment
// (docs/machines.md, "Which rank"), and which variables have them; without a launcher rank 0 of 1. It returns
// ErrOptions for an impossible rank, and if there is a number of ranks but none for this process.
func FindRank() (rank, worldSize int, from string, err error) {
	p, err := launcher.Find(os.Getenv)
	if err != nil {
		return 0, 1, "", fmt.Errorf("%w: %w", ErrOptions, err)
	}
	return p.Rank, p.Size, p.From, nil
}
