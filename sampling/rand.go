package sampling

import "github.com/khop-gnn/khop/internal/rng"

// Purpose tells apart what draws are for (docs/sampling.md, "Purposes").
type Purpose uint8

// The purposes of samplers; PurposePick is for samplers of yours, too.
const (
	PurposePick   = Purpose(rng.Pick)          // choosing neighbours
	purposeShared = Purpose(rng.SharedVariate) // a variate a node that its destinations share
	purposePhase  = Purpose(rng.Phase)         // when a shared variate that stays for several batches is drawn anew
	purposeWeigh  = Purpose(rng.Weigh)         // choosing edges by weight
)

// Rand is the randomness of one batch, a value: every draw is a function of the batch (seed, epoch, number, instance)
// and of what the draw is for, never of other draws, threads or devices.
type Rand struct {
	key             uint64
	seed, batch     uint64
	epoch, instance uint32
}

// NewRand returns the randomness of a batch. Loaders make it; tests and other users of samplers may.
func NewRand(seed uint64, epoch, instance uint32, batch uint64) Rand {
	return Rand{rng.BatchKey(seed, epoch, instance, batch), seed, batch, epoch, instance}
}

// of returns the randomness of another batch of the epoch.
func (r Rand) of(batch uint64) Rand { return NewRand(r.seed, r.epoch, r.instance, batch) }

// Stage returns the draws for a purpose at a hop. typeKey is the Key of the edge or node type that is drawn for.
func (r Rand) Stage(typeKey uint64, p Purpose, hop uint8) Stage {
	return Stage{rng.StageKey(r.key, typeKey, rng.Purpose(p), hop)}
}

// Stage is the draws of one batch for one purpose, type and hop: a stream for every index, such as a node's own id.
type Stage struct{ key uint64 }

// Stream returns the draws of one index.
func (s Stage) Stream(index uint64) Stream { return Stream{rng.Stream(s.key, index)} }

// Stream is a sequence of 64-bit draws, any of which can be computed without the ones before.
type Stream struct{ state uint64 }

// Draw returns draw i, uniform over all 64-bit numbers.
func (s Stream) Draw(i uint64) uint64 { return rng.Draw(s.state, i) }

// IntN returns draw i as an integer of 0 .. n-1, for n >= 1.
func (s Stream) IntN(i, n uint64) uint64 { return rng.Bounded(rng.Draw(s.state, i), n) }

// Float64 returns draw i as a number of [0, 1).
func (s Stream) Float64(i uint64) float64 { return rng.Float64(rng.Draw(s.state, i)) }
