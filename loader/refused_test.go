package loader_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

// However much memory a placed source lets its loaders take, a loader says that it is too little, when it is opened or
// in an epoch, or makes the batches; and it leaves nothing behind.
func TestALoaderThatIsRefusedMemorySaysSoAndLeavesNothing(t *testing.T) {
	const seed = 20261123
	r := rand.New(rand.NewPCG(seed, 0))
	plain := graphs.Plain(t, 300, 5)
	typed := graphs.Typed(t, 60, 40)
	for name, c := range map[string]struct {
		src loader.Source
		opt loader.Options
	}{
		"plain": {plain, loader.Options{Sampler: neighbor, Columns: loader.ColumnOptions{Edges: []string{"weight"}}}},
		"trees": {typed, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{3, 2}, Disjoint: true},
			Seeds: loader.AllNodes()}},
		"prepared": {plain, loader.Options{Sampler: neighbor,
			Columns: loader.ColumnOptions{Prepare: loader.Transpose | loader.GCNNorm | loader.Loops}}},
		"links": {typed, loader.Options{Sampler: neighbor, Seeds: loader.AllEdges(),
			Links: loader.LinkOptions{Negatives: sampling.Negatives{Ratio: 2, Law: sampling.ByDegree},
				ExcludeSeeds: loader.ExcludeReverse}}},
		"items": {plain, loader.Options{Sampler: sampling.Saint{Kind: sampling.SaintNodes, Budget: 30,
			Coverage: 2}}},
		"both ways": {plain, loader.Options{Sampler: sampling.Neighbor{Fanouts: []int{2}, Direction: sampling.Both}}},
		"from a disk": {mappedGraph(t, 600), loader.Options{Sampler: neighbor, Residence: loader.Disk,
			Disk: loader.DiskOptions{CacheBytes: 4000}}},
	} {
		c.opt.BatchSize, c.opt.Shuffle, c.opt.Workers, c.opt.Device.Name = 24, true, 2, "cpu"
		var want []string
		all := int64(0)
		for try := range 24 {
			p := place(t, c.src, c.opt, 1)
			copies, limit := p.Ledger().Total(), int64(0)
			if try > 0 {
				limit = copies + 1 + r.Int64N(all-copies)
				p.Ledger().SetLimit(limit)
			}
			l, err := loader.New(p, c.opt)
			var got []string
			if err == nil {
				for b, failed := range l.Range(background, 0, 0, 6) {
					if err = failed; err == nil {
						got = append(got, digestOf(b))
					}
				}
				failed := l.Close()
				expect.That(t, failed == nil, "%s: %v", name, failed)
			}
			switch peak := p.Ledger().Peak(); {
			case try == 0 && err == nil:
				want, all = got, peak
			case try == 0 || err != nil && !errors.Is(err, loader.ErrMemory):
				t.Errorf("seed %d, %s, limit %d of %d: %v", seed, name, limit, all, err)
			case err == nil && expect.Diff(want, got) != "":
				t.Errorf("seed %d, %s, limit %d of %d: %s", seed, name, limit, all, expect.Diff(want, got))
			case peak > limit || p.Ledger().Total() != copies:
				t.Errorf("seed %d, %s, limit %d: %d bytes were taken; %d are held, before it were %d", seed, name,
					limit,
					peak, p.Ledger().Total(), copies)
			}
		}
	}
}

// empty has no memory to give.
type empty struct{}

var errEmpty = errors.New("there is none")

func (empty) Take(int64) ([]byte, error) { return nil, errEmpty }
func (empty) Give([]byte) error          { return nil }

// Slots are given memory side by side. Where there is none for several of them, there is one error.
func TestMemoryThatNoSlotHasIsMissedOnce(t *testing.T) {
	opt := loader.Options{Sampler: neighbor, BatchSize: 16, Workers: 4, Tuning: loader.TuningOptions{Prefetch: 4},
		Device: loader.DeviceOptions{Name: "cpu"}, Hooks: loader.Hooks{RowMemory: empty{}}}
	for range 20 {
		_, err := loader.New(graphs.Plain(t, 300, 5), opt)
		expect.Ensure(t, errors.Is(err, errEmpty) && strings.Count(err.Error(), errEmpty.Error()) == 1, "%v", err)
	}
}
