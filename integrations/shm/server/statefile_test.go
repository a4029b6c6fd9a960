//go:build linux

package server

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

func TestTheStateFileLetsAnotherServerGoOn(t *testing.T) {
	g := plainGraph(t, 500)
	file := filepath.Join(t.TempDir(), "state.json")
	var got [2][]string
	for round := range 4 { // each server delivers some batches to each of two ranks
		s := serve(t, g, Options{WorldSize: 2, StateFile: file})
		for rank := range 2 {
			c := connect(t, s, consumer.Options{Rank: consumer.RankOf(rank)})
			expect.That(t, c.Info().Durable, "it is not called durable")
			n := 0
			for b, err := range c.GoOn(t.Context()) {
				expect.OK(t, err)
				if n++; n == 3+rank+round {
					break // not acknowledged
				}
				got[rank] = append(got[rank], lineOf(b))
				sent := s.ranks[rank].sentOrDone()
				expect.That(t, sent <= 1, "%d batches were announced and not acknowledged", sent)
			}
			c.Close()
		}
		s.Close()
	}
	for rank := range 2 {
		opt := usual()
		opt.Rank, opt.WorldSize = rank, 2
		all := append(want(t, g, opt, 0), want(t, g, opt, 1)...)
		if !slices.Equal(got[rank], all[:len(got[rank])]) {
			t.Errorf("rank %d got %q, want the beginning of %q", rank, got[rank], all)
		}
	}
	list, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	expect.That(t, len(list) == 1, "left %q", list)
}

// sentOrDone returns the batches that were announced and not acknowledged.
func (r *rank) sentOrDone() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.peers {
		return p.sent - p.done
	}
	return 0
}

func TestAStateFileOfSomethingElseIsRefused(t *testing.T) {
	g := plainGraph(t, 100)
	file := filepath.Join(t.TempDir(), "state.json")
	try := func(world int) error {
		s, err := New(t.Context(), g, Options{Path: socketPath(t), Loader: usual(), StateFile: file, WorldSize: world})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	expect.OK(t, try(1))
	text, err := os.ReadFile(file)
	if err := try(3); err != nil { // all ranks at the same place: any number goes on from there
		t.Errorf("with another number of ranks: %v", err)
	}
	var saved savedStates
	expect.OK(t, errors.Join(err, json.Unmarshal(text, &saved)))
	of := func(ranks int, change func(last *loader.State)) string {
		list := slices.Repeat(saved.Ranks[:1], ranks)
		change(&list[ranks-1])
		return textOf(sealed(list))
	}
	for name, c := range map[string]struct {
		world          int
		contents, want string
	}{
		"another dataset":           {1, of(1, func(s *loader.State) { s.Dataset = "0123" }), "dataset"},
		"more ranks, uneven":        {1, of(2, func(s *loader.State) { s.Next = 1 }), "2 ranks"},
		"fewer ranks, uneven":       {3, of(2, func(s *loader.State) { s.Next = 1 }), "2 ranks"},
		"fewer ranks, other epochs": {3, of(2, func(s *loader.State) { s.Epoch = 1 }), "2 ranks"},
		"an epoch too far":          {1, of(1, func(s *loader.State) { s.Epoch = 1 << 32 }), "epoch"},
		"no state":                  {1, `{"a": 1}`, "not a state of khop serve"},
		"no ranks":                  {1, textOf(sealed(nil)), "remove it to begin anew"},
		"another version":           {1, textOf(savedStates{Version: 3, Ranks: saved.Ranks}), "version 3"},
		"empty":                     {1, "", "is empty, so it says no place: remove it to begin anew"},
		"cut short":                 {1, "{", "damaged one (unexpected EOF): remove it to begin anew"},
		"zeros":                     {1, "\x00\x00", "remove it to begin anew"},
		"checksum left out":         {1, textOf(savedStates{Version: 2, Ranks: saved.Ranks}), "its checksum is wrong"},
		"a version that had none": {1, strings.Replace(string(text), "state\":2", "state\":1", 1),
			"its checksum is wrong"},
		"more after it": {1, string(text) + "{}", "remove it to begin anew"},
	} {
		expect.OK(t, os.WriteFile(file, []byte(c.contents), 0o600))
		if err := try(c.world); err == nil || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v", name, err)
		}
	}
	file = filepath.Dir(file)
	expect.Is(t, try(1), wholefile.ErrKind, "a folder")
	file = filepath.Join(file, "no", "such", "folder")
	expect.Is(t, try(1), os.ErrNotExist, "where it cannot be written")
}

// A state file of which any bit has turned is refused, or says the same.
func TestADamagedStateIsNotTaken(t *testing.T) {
	ranks := []loader.State{{Semantics: 1, Dataset: "0123", Sampler: "neighbor 4,3", Seeds: "ff", BatchSize: 8}}
	text := textOf(sealed(ranks))
	damaged := []byte(text)
	expect.EachByte(damaged, func(_ int, was byte) []byte { return expect.Flips(was) }, func(int) {
		s, err := parseStates(damaged)
		expect.That(t, err != nil || slices.Equal(s.Ranks, ranks), "%s: taken as %+v", damaged, s.Ranks)
	})
	old, err := parseStates([]byte(`{"khop_feed_state":1,` + text[strings.Index(text, `"ranks"`):]))
	expect.That(t, err == nil && slices.Equal(old.Ranks, ranks), "without checksum, as servers once wrote: %v", err)
}

// textOf is a state file's text.
func textOf(s savedStates) string {
	text, _ := json.Marshal(s) // nothing in it can fail
	return string(text)
}

// writes shows each write of a state of this test's servers, and lets it fail.
func writes(t *testing.T, see func() error) {
	t.Cleanup(func() { replaceFile = wholefile.Replace }) // after the servers' end
	replaceFile = func(name string, mode fs.FileMode, write func(io.Writer) error) error {
		return wholefile.Replace(name, mode, func(w io.Writer) error { return errors.Join(see(), write(w)) })
	}
}

// A state that was acknowledged is in the file, which is written once for it.
func TestAStateIsInTheFileOnceItIsSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	n := 0
	writes(t, func() error {
		n++
		return nil
	})
	left := filepath.Join(filepath.Dir(file), ".state.json.123.new")
	expect.OK(t, os.WriteFile(left, []byte("of a server that was killed"), 0o600))
	s := serve(t, plainGraph(t, 100), Options{StateFile: file})
	_, err := os.Stat(left)
	expect.Is(t, err, fs.ErrNotExist, "what a killed server left")
	for range 2 {
		expect.OK(t, s.states.save(0, stateAt(s, 0, 1)))
		text := string(expect.Must(os.ReadFile(file))(t))
		expect.That(t, n == 2 && strings.Contains(text, `"next":1`), "%d writes, %s", n, text)
	}
}

// Where the disk fails the consumer gets an error, and the state does not count as written.
func TestAStateThatCannotBeWrittenIsSaid(t *testing.T) {
	g := plainGraph(t, 500)
	file := filepath.Join(t.TempDir(), "state.json")
	var broken atomic.Bool
	writes(t, func() error {
		if broken.Load() {
			return errBroken
		}
		return nil
	})
	s := serve(t, g, Options{StateFile: file})
	broken.Store(true)
	for range 2 {
		c := connect(t, s, consumer.Options{})
		if err := last(c.GoOn(t.Context())); code(err) != wire.CodeState || !strings.Contains(err.Error(), "on fire") {
			t.Errorf("%v, want that the state cannot be written", err)
		}
		if st := s.Stats()[0]; st.Sent >= 16 { // some are on their way when the first state fails
			t.Errorf("%d batches were announced, a whole epoch", st.Sent)
		}
	}
	list, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	expect.That(t, len(list) == 0, "left %q", list)
	broken.Store(false)
	c := connect(t, s, consumer.Options{})
	lines(t, c.GoOn(t.Context()))
	text, err := os.ReadFile(file)
	expect.That(t, err == nil && strings.Contains(string(text), `"next":16`), "afterwards: %s, %v", text, err)
}

// Ranks that save at a time share a write, and what each has saved is there.
func TestRanksShareWritesOfTheirStates(t *testing.T) {
	const world = 8
	var n atomic.Int64
	writes(t, func() error {
		n.Add(1)
		return nil
	})
	s := serve(t, plainGraph(t, 500), Options{WorldSize: world, StateFile: filepath.Join(t.TempDir(), "state.json")})
	together(world, func(i int) {
		for next := range uint64(20) {
			expect.OK(t, s.states.save(i, stateAt(s, 1, next)))
			var saved savedStates
			text, err := os.ReadFile(s.states.path)
			if err := errors.Join(err, json.Unmarshal(text, &saved)); err != nil || saved.Ranks[i].Next != next {
				t.Errorf("rank %d saved %d, the file has %+v, %v", i, next, saved.Ranks, err)
			}
		}
	})
	t.Logf("%d writes of %d states", n.Load(), 20*world)
}
