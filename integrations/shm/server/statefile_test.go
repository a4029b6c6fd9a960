//go:build linux

package server

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
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
			if !c.Info().Durable {
				t.Error("it is not called durable")
			}
			n := 0
			for b, err := range c.GoOn(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == 3+rank+round {
					break // not acknowledged
				}
				got[rank] = append(got[rank], lineOf(b))
				if sent := s.ranks[rank].sentOrDone(); sent > 1 {
					t.Errorf("%d batches were announced and not acknowledged", sent)
				}
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
	if list, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(list) != 1 {
		t.Errorf("left %q", list)
	}
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
		s, err := New(t.Context(), g, Options{Path: socketPath(t), Loader: usual(), StateFile: file,
			WorldSize: world})
		if err == nil {
			err = s.Close()
		}
		return err
	}
	if err := try(1); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err := try(3); err != nil { // all ranks at the same place: any number goes on from there
		t.Errorf("with another number of ranks: %v", err)
	}
	var saved savedStates
	if err := errors.Join(err, json.Unmarshal(text, &saved)); err != nil {
		t.Fatal(err)
	}
	of := func(ranks int, change func(last *loader.State)) savedStates {
		list := slices.Repeat(saved.Ranks[:1], ranks)
		change(&list[ranks-1])
		return savedStates{saved.Version, list}
	}
	for name, c := range map[string]struct {
		contents any
		text     string
	}{
		"another dataset":  {of(1, func(s *loader.State) { s.Dataset = "0123" }), "dataset"},
		"uneven ranks":     {of(2, func(s *loader.State) { s.Next = 1 }), "2 ranks"},
		"no state":         {map[string]int{"a": 1}, "not a state of khop serve"},
		"an epoch too far": {of(1, func(s *loader.State) { s.Epoch = 1 << 40 }), "epoch"},
	} {
		text, err := json.Marshal(c.contents)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := try(1); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err = os.WriteFile(file, []byte("{"), 0o600)
	if err := errors.Join(err, try(1)); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("damaged: %v", err)
	}
	file = filepath.Join(filepath.Dir(file), "no", "such", "folder")
	if err := try(1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("where it cannot be written: %v", err)
	}
}
