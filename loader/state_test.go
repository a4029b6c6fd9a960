package loader_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/graphs"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
)

func TestResumeGoesOnAfterAnyBatch(t *testing.T) {
	g := graphs.Plain(t, 220, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Shuffle: true, Seed: 1<<64 - 1}
	l := open(t, g, opt)
	whole := digests(t, l.Epoch(background, 7))
	var states []string
	for b := range each(t, l.Epoch(background, 7)) {
		text := expect.Must(json.Marshal(b.State()))(t)
		states = append(states, string(text))
	}
	opt.Workers, opt.Tuning.Prefetch, opt.Residence, opt.Columns.Seeds = 3, 1, loader.Resident, nil
	other := open(t, g, opt)
	for i, text := range states {
		var s loader.State
		expect.OK(t, json.Unmarshal([]byte(text), &s))
		expect.Same(t, digests(t, other.Resume(background, s)), whole[i+1:], "resumed after batch %d", i)
	}
}

func TestResumeMayBeWithOtherRanks(t *testing.T) {
	g := graphs.Plain(t, 220, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Shuffle: true, Remainder: loader.Short}
	whole := digests(t, open(t, g, opt).Epoch(background, 0))
	opt.WorldSize = 2
	var s [2]loader.State // of both ranks after the second round
	for rank := range 2 {
		opt.Rank = rank
		n := 0
		for b := range each(t, open(t, g, opt).Epoch(background, 0)) {
			if n++; n == 2 {
				s[rank] = b.State()
				break
			}
		}
	}
	expect.That(t, s[0] == s[1], "states after a round differ: %+v and %+v", s[0], s[1])
	for world := 1; world <= 4; world++ {
		got := make([]string, len(whole)-4)
		for rank := range world {
			opt.Rank, opt.WorldSize = rank, world
			at := rank
			for _, d := range digests(t, open(t, g, opt).Resume(background, s[0])) {
				got[at] = d
				at += world
			}
		}
		expect.Same(t, got, whole[4:], "%d ranks", world)
	}
}

func TestAStateOfAnotherLoaderIsRefused(t *testing.T) {
	g := graphs.Plain(t, 220, 5)
	own := loader.Options{Sampler: neighbor, BatchSize: 10, Shuffle: true, Seed: 4}
	var s loader.State
	for b := range open(t, g, own).Epoch(background, 0) {
		s = b.State()
		break
	}
	for name, change := range map[string]func(*loader.Options){
		"sampler":    func(o *loader.Options) { o.Sampler = sampling.Neighbor{Fanouts: []int{4, 2}} },
		"seed":       func(o *loader.Options) { o.Seed = 5 },
		"seed list":  func(o *loader.Options) { o.Seeds = loader.AllNodes() },
		"seed order": func(o *loader.Options) { o.Seeds = loader.NodeIDs([]int32{109, 107, 108}) },
		"batch size": func(o *loader.Options) { o.BatchSize = 11 },
		"shuffle":    func(o *loader.Options) { o.Shuffle = false },
		"drop last":  func(o *loader.Options) { o.DropLast = true },
		"instance":   func(o *loader.Options) { o.Instance = 1 },
	} {
		opt := own
		change(&opt)
		expect.Says(t, lastError(open(t, g, opt).Resume(background, s)), loader.ErrState,
			"its "+strings.Replace(name, "order", "list", 1)+" is ", name)
	}
	for name, src := range map[string]loader.Source{"dataset": graphs.Plain(t, 222, 5)} {
		expect.Is(t, lastError(open(t, src, own).Resume(background, s)), loader.ErrState, name)
	}
	later := s
	later.Semantics++
	for name, bad := range map[string]loader.State{"none": {}, "other semantics": later} {
		expect.Is(t, lastError(open(t, g, own).Resume(background, bad)), loader.ErrState, name)
	}
	s.Next = 1<<64 - 1
	n := len(digests(t, open(t, g, own).Resume(background, s)))
	expect.That(t, n == 0, "a state far beyond the end: %d batches", n)
}

func TestRangeIsAPartOfTheEpoch(t *testing.T) {
	g := graphs.Plain(t, 220, 5)
	opt := loader.Options{Sampler: neighbor, BatchSize: 10, Shuffle: true}
	l := open(t, g, opt)
	whole := digests(t, l.Epoch(background, 1))
	for _, c := range []struct{ first, count uint64 }{{0, 11}, {0, 3}, {10, 1}, {4, 100}, {11, 5}, {99, 1}, {3, 0},
		{2, 1<<64 - 1}} {
		want := whole[min(c.first, 11):]
		want = want[:min(c.count, uint64(len(want)))]
		expect.Same(t, digests(t, l.Range(background, 1, c.first, c.count)), want, "%d batches from %d", c.count,
			c.first)
	}
}

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
		for b := range each(t, l.Resume(background, at)) {
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
