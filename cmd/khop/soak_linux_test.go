//go:build !race

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/memuse"
)

// soaked are servers that are fed on for long: data, and options.
var soaked = [][2]string{
	{"typed", "--seeds all --batch-size 300 --fanouts 4,3 --shuffle"},
	{"rmat", "--seeds all --batch-size 250 --fanouts 5,5 --residence disk --cache-bytes 300kB --lookahead 20"},
	{"rmat", "--seeds all --batch-size 400 --sampler labor --fanouts 6,6 --resident"},
	{"sbm", "--batch-size 200 --fanouts -1 --hold 2 --max-memory 200MB"},
}

// soak is a server under way, and what its batches were when they came first.
type soak struct {
	*served
	name    string
	known   sync.Map // digests by epoch and number
	batches atomic.Int64
	early   holding
}

// holding is what a process has of the system.
type holding struct {
	memory           int64
	files, processes int // descriptors and threads
}

func holdingOf(pid int) (h holding) {
	use, _ := memuse.Of(pid)
	count := func(of string) int {
		list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, of))
		return len(list)
	}
	return holding{use.Anonymous, count("fd"), count("task")}
}

// TestALongRunChangesNothingAndHoldsNoMore feeds on servers while a dataset is replaced and checked beside them:
// whole epochs in turns, and parts of them by consumers that leave. KHOP_SOAK says how long ("60m", make soak).
func TestALongRunChangesNothingAndHoldsNoMore(t *testing.T) {
	long := 2 * time.Second
	if s := os.Getenv("KHOP_SOAK"); s != "" {
		long = expect.Must(time.ParseDuration(s))(t)
	}
	dir := t.TempDir()
	for _, kind := range []string{"typed", "rmat", "sbm"} {
		must(t, "generate", kind, filepath.Join(dir, kind), "--nodes", "3000", "--edges", "30000", "--features", "12")
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var running sync.WaitGroup
	var servers []*soak
	for _, c := range soaked {
		args := append([]string{filepath.Join(dir, c[0]), "--world-size", "2"}, strings.Fields(c[1])...)
		s := &soak{served: startServer(t, args...), name: strings.Join(c[:], " ")}
		servers = append(servers, s)
		for rank := range 2 {
			running.Go(func() { s.feed(ctx, t, rank) })
		}
	}
	var commits int
	running.Go(func() { commits = replaceAgain(ctx, t, dir) })
	warm := time.NewTimer(long / 4)
	select {
	case <-warm.C:
	case <-ctx.Done():
	}
	for _, s := range servers {
		s.early = holdingOf(s.Process.Pid)
	}
	running.Wait()
	for _, s := range servers {
		late := holdingOf(s.Process.Pid)
		t.Logf("%s: %d batches; after a quarter %+v, at the end %+v", s.name, s.batches.Load(), s.early, late)
		expect.That(t, late.memory <= s.early.memory*6/5+8<<20 && late.files <= s.early.files+8 &&
			late.processes <= s.early.processes+8, "%s holds more with time", s.name)
		expect.OK(t, s.Process.Signal(syscall.SIGINT))
		expect.Same(t, s.status(t), exitInterrupted, "status of a server; it says %v", s.stderr)
	}
	t.Logf("%d commits beside them", commits)
}

// feed takes epochs until the context ends; from every third it leaves early.
func (s *soak) feed(ctx context.Context, t *testing.T, rank int) {
	for run := 0; ctx.Err() == nil; run++ {
		c, err := consumer.Dial(t.Context(), s.ready.Socket, consumer.Options{Rank: consumer.RankOf(rank),
			Timeout: 5 * time.Minute})
		if err != nil {
			t.Errorf("%s: run %d: %v", s.name, run, err)
			return
		}
		for epoch := range uint64(3) {
			n := 0
			for b, err := range c.Epoch(t.Context(), (uint64(run)+epoch)%8) {
				if err != nil {
					t.Errorf("%s: run %d: %v", s.name, run, err)
					break
				}
				s.judge(t, b, rank, (uint64(run)+epoch)%8)
				if n++; ctx.Err() != nil || epoch == 2 && n > run%7 {
					break
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// judge compares a batch with what it was the first time.
func (s *soak) judge(t *testing.T, b *consumer.Batch, rank int, epoch uint64) {
	topology, full := b.Digest()
	key, now := [3]uint64{uint64(rank), epoch, uint64(b.Number)}, [2]uint64{topology, full}
	if was, known := s.known.LoadOrStore(key, now); known && was != now {
		t.Errorf("%s: rank %d, epoch %d, batch %d is %x and was %x", s.name, rank, epoch, b.Number, now, was)
	}
	s.batches.Add(1)
}

// replaceAgain converts over a dataset, checks it and exports it, again and again, and returns how often.
func replaceAgain(ctx context.Context, t *testing.T, dir string) (n int) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d %d\n", i%4000, i*i%3989)
	}
	source, target, npz := filepath.Join(dir, "edges.txt"), filepath.Join(dir, "again"), filepath.Join(dir, "again.npz")
	expect.OK(t, os.WriteFile(source, []byte(text.String()), 0o600))
	var first [sha256.Size]byte
	for ; ctx.Err() == nil; n++ {
		for _, args := range [][]string{{"convert", source, target, "--force"}, {"check", target},
			{"export", target, npz, "--to", "npz", "--force"}} {
			if out, err := process(t, program(t), args...).CombinedOutput(); err != nil {
				t.Errorf("khop %v: %v: %s", args, err, out)
				return n
			}
		}
		b, err := os.ReadFile(npz)
		sum := sha256.Sum256(b)
		if n == 0 {
			first = sum
		}
		expect.That(t, err == nil && sum == first, "commit %d exports something else: %v", n, err)
	}
	return n
}
