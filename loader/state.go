package loader

import (
	"encoding/hex"
	"fmt"

	"github.com/khop-gnn/khop/loader/internal/recipe"
)

// Semantics is the version of the contents of batches for given inputs: of the generator, the shuffle and the samplers.
// It changes only if some batch does.
const Semantics = 1

// State is a place in an epoch, and everything that the batches from there on depend on. It is plain data, to store as
// JSON with a model's checkpoint. Restoring it costs no more than starting an epoch.
//
// Workers, memory, columns, rank and world size are not part of it: ranks that have done the same number of rounds have
// the same state, and any number of ranks can continue from it.
type State struct {
	Semantics int    `json:"semantics"`
	Dataset   string `json:"dataset"` // Source.ID in hexadecimal
	Sampler   string `json:"sampler"` // Sampler.Fingerprint
	Seeds     string `json:"seeds"`   // hash of the seed list
	BatchSize int    `json:"batch_size"`
	Shuffle   bool   `json:"shuffle"`
	DropLast  bool   `json:"drop_last"`
	Seed      uint64 `json:"seed"`
	Instance  uint32 `json:"instance"`
	Epoch     uint64 `json:"epoch"`
	Next      uint64 `json:"next"` // number of the next batch, of all ranks
}

// newState returns the part of all states that does not change from batch to batch.
func newState(r *recipe.Recipe, id [16]byte) State {
	return State{
		Semantics: Semantics,
		Dataset:   hex.EncodeToString(id[:]),
		Sampler:   r.Fingerprint,
		Seeds:     seedsOf(r),
		BatchSize: r.BatchSize,
		Shuffle:   r.Shuffle,
		DropLast:  r.DropLast,
		Seed:      r.Seed,
		Instance:  r.Instance,
	}
}

// seedsOf stands for the list of seeds and, where times decide it, their order.
func seedsOf(r *recipe.Recipe) string {
	text := fmt.Sprintf("%016x", r.Seeds.Hash())
	if r.Seeds.Spans != nil {
		text += fmt.Sprintf(" by time, %d", r.SameTime)
	}
	return text
}

// check returns ErrState, naming the first difference, unless s is a state of a loader whose states begin as own.
func (s State) check(own State) error {
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"version of the sampling semantics", s.Semantics, own.Semantics},
		{"dataset", s.Dataset, own.Dataset},
		{"sampler", s.Sampler, own.Sampler},
		{"seed list", s.Seeds, own.Seeds},
		{"batch size", s.BatchSize, own.BatchSize},
		{"shuffle", s.Shuffle, own.Shuffle},
		{"drop last", s.DropLast, own.DropLast},
		{"seed", s.Seed, own.Seed},
		{"instance", s.Instance, own.Instance},
	} {
		if f.got != f.want {
			return fmt.Errorf("%w: its %s is %v, the loader's %v; open the loader as it was, or start an epoch anew",
				ErrState, f.name, f.got, f.want)
		}
	}
	return nil
}

// State returns the place before batch next of an epoch: Resume begins with that batch. If next is the number of
// batches, it yields none.
func (l *Loader) State(epoch, next uint64) State {
	s := l.state
	s.Epoch, s.Next = epoch, next
	return s
}

// CheckState returns ErrState, naming the first difference, unless Resume would continue from s.
func (l *Loader) CheckState(s State) error { return s.check(l.state) }
