package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/khop-gnn/khop/loader"
)

// stateFile keeps the places of all ranks where another server finds them.
type stateFile struct {
	path string

	mu     sync.Mutex
	states []loader.State
}

// savedStates is the file's contents.
type savedStates struct {
	Version int            `json:"khop_feed_state"`
	Ranks   []loader.State `json:"ranks"`
}

// openStates sets the ranks' places from the file, if there is one.
func openStates(path string, ranks []*rank) (*stateFile, error) {
	f := &stateFile{path: path, states: make([]loader.State, len(ranks))}
	for i, r := range ranks {
		f.states[i] = r.state()
	}
	_ = os.Remove(f.temporary()) // of a server that was killed while it wrote
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, f.write() // now, so that a path that cannot be written is found now
	}
	if err != nil {
		return nil, err
	}
	var saved savedStates
	if err := json.Unmarshal(text, &saved); err != nil || saved.Version != 1 || len(saved.Ranks) == 0 {
		return nil, fmt.Errorf("%s: not a state of khop serve (%v): name another file, or remove it to begin anew",
			path,
			err)
	}
	if len(saved.Ranks) != len(ranks) && !allEqual(saved.Ranks) {
		return nil, fmt.Errorf("%s: %w: it has %d ranks, which do not stand at the same place; the server has %d", path,
			loader.ErrState, len(saved.Ranks), len(ranks))
	}
	for i, r := range ranks {
		s := saved.Ranks[min(i, len(saved.Ranks)-1)]
		if err := r.loader.CheckState(s); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if s.Epoch > 1<<32-1 {
			return nil, fmt.Errorf("%s: %w: epoch %d", path, loader.ErrState, s.Epoch)
		}
		r.place, f.states[i] = place{s.Epoch, s.Next}, s
	}
	return f, nil
}

func allEqual(s []loader.State) bool {
	for i := range s {
		if s[i] != s[0] {
			return false
		}
	}
	return true
}

// save replaces a rank's state, in memory and in the file.
func (f *stateFile) save(rank int, s loader.State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.states[rank] == s {
		return nil
	}
	f.states[rank] = s
	return f.write()
}

// write replaces the file by renaming: a reader sees the old or the new one. It is not synced: it outlives this
// process, not the machine.
func (f *stateFile) write() error {
	text, err := json.Marshal(savedStates{1, f.states})
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.temporary(), append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(f.temporary(), f.path)
}

func (f *stateFile) temporary() string {
	return filepath.Join(filepath.Dir(f.path), "."+filepath.Base(f.path)+".new")
}
