package loader_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
)

var worldDraws = flag.Int("worlds", 12, "runs that TestNoSeedIsLostOrTwiceWhereTheWorldChanges draws")

// TestNoSeedIsLostOrTwiceWhereTheWorldChanges trains two epochs by worlds of drawn sizes, each of which ends after some
// rounds and leaves a state as JSON. The oracle is a list: batches by number, each done once.
func TestNoSeedIsLostOrTwiceWhereTheWorldChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 31))
	for range *worldDraws {
		seeds := 2 + r.IntN(120)
		g := graphs.Plain(t, 2*seeds, 3)
		opt := loader.Options{Sampler: neighbor, BatchSize: 1 + r.IntN(1+seeds/4), Shuffle: r.IntN(2) == 0, Workers: 1,
			DropLast: r.IntN(2) == 0, Remainder: loader.Remainder(r.IntN(3)), Seed: r.Uint64()}
		opt.Columns.Nodes, opt.Columns.Seeds = []string{}, []string{}
		whole := open(t, g, opt)
		all := whole.AllBatches()
		state, story := whole.State(0, 0), fmt.Sprintf("%d seeds, %v", seeds, opt)
		for state.Epoch < 2 {
			epoch, done := state.Epoch, map[uint64]int{}
			for state.Epoch == epoch {
				opt.WorldSize = 1 + r.IntN(5)
				rounds := 1 + r.IntN(1+int(all))
				story += fmt.Sprintf("; %d rounds of %d ranks from %d", rounds, opt.WorldSize, state.Next)
				state = train(t, g, opt, state, rounds, done)
			}
			lost := uint64(0)
			for number := range all {
				expect.Ensure(t, done[number] <= 1, "batch %d came %d times: %s", number, done[number], story)
				lost += 1 - uint64(done[number])
			}
			expect.That(t, lost == 0 || opt.Remainder == loader.Drop && lost < uint64(opt.WorldSize),
				"%d of %d batches were lost: %s", lost, all, story)
		}
	}
}

// train runs all ranks for some rounds, or to the epoch's end. It counts each batch that is not padding, and returns
// the state that the ranks store, which is the same for all.
func train(t *testing.T, g loader.Source, opt loader.Options, from loader.State, rounds int,
	done map[uint64]int) loader.State {
	t.Helper()
	text := expect.Must(json.Marshal(from))(t)
	var last [8]loader.State // after each rank's last batch
	most := 0
	for rank := range opt.WorldSize {
		opt.Rank = rank
		var at loader.State
		expect.OK(t, json.Unmarshal(text, &at))
		l, n := open(t, g, opt), 0
		for b, err := range l.Resume(background, at) {
			expect.OK(t, err)
			if !b.Padded {
				done[b.Number]++
			}
			if last[rank], n = b.State(), n+1; n == rounds {
				break
			}
		}
		if n == rounds && n >= most {
			expect.That(t, last[rank] == last[0], "rank %d stores %+v, rank 0 %+v", rank, last[rank], last[0])
		}
		if most = max(most, n); n < rounds && rank == opt.WorldSize-1 && most < rounds {
			return l.State(from.Epoch+1, 0)
		}
	}
	return last[0]
}
