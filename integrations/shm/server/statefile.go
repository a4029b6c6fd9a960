package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/loader"
)

// stateFile keeps the places of all ranks where another server finds them.
type stateFile struct {
	path string

	mu      sync.Mutex
	states  []loader.State
	changes uint64 // of states

	writing sync.Mutex // held while the file is written
	written uint64     // changes that are in the file
}

// savedStates is the file's contents.
type savedStates struct {
	Version int            `json:"khop_feed_state"` // 2; 1 has no checksum
	Sum     string         `json:"xxh3,omitempty"`  // of the ranks' JSON, in hexadecimal
	Ranks   []loader.State `json:"ranks"`
}

// mostStates is how many bytes the file has at most.
const mostStates = 16 << 20

// sealed returns states with their checksum.
func sealed(ranks []loader.State) savedStates {
	s := savedStates{Version: 2, Ranks: ranks}
	s.Sum = s.sum()
	return s
}

// sum returns the checksum of the ranks.
func (s savedStates) sum() string {
	text, _ := json.Marshal(s.Ranks) // nothing in it can fail
	return fmt.Sprintf("%016x", xxh3.Hash(text))
}

// sound reports whether the states are as a server wrote them.
func (s savedStates) sound() error {
	switch {
	case s.Version != 1 && s.Version != 2:
		return fmt.Errorf("version %d, this khop reads 1 and 2", s.Version)
	case len(s.Ranks) == 0:
		return errors.New("no ranks")
	case s.Version == 2 && s.Sum != s.sum() || s.Version == 1 && s.Sum != "":
		return errors.New("its checksum is wrong")
	}
	return nil
}

// openStates sets the ranks' places from the file, if there is one.
func openStates(named string, ranks []*rank, src loader.Source) (*stateFile, error) {
	out := wholefile.Output{Path: named, Force: true, Kept: true}
	if at, ok := src.(interface{ Path() string }); ok {
		out.From = []string{at.Path()}
	}
	path, _, err := out.Target()
	if err != nil {
		return nil, err
	}
	f := &stateFile{path: path, states: make([]loader.State, len(ranks))}
	for i, r := range ranks {
		f.states[i] = r.state()
	}
	wholefile.Clear(path) // of a server that was killed while it wrote
	text, err := wholefile.Read(path, mostStates)
	if errors.Is(err, fs.ErrNotExist) {
		return f, f.write() // now, so that a path that cannot be written is found now
	}
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("%s: the file is empty, so it says no place: remove it to begin anew, put a copy of "+
			"it back, or name another file", path)
	}
	saved, err := parseStates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: not a state of khop serve, or a damaged one (%w): remove it to begin anew, put a "+
			"copy of it back, or name another file", path, err)
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

// parseStates reads a file's contents, and says what is wrong with them.
func parseStates(text []byte) (s savedStates, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("something follows it")
	}
	return s, s.sound()
}

// save replaces the state of the server's rank number i, in memory and in the file. Ranks that save at a time share one
// write.
func (f *stateFile) save(i int, s loader.State) error {
	f.mu.Lock()
	if f.states[i] != s {
		f.states[i] = s
		f.changes++
	}
	mine := f.changes
	f.mu.Unlock()
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.written >= mine {
		return nil
	}
	return f.write()
}

// write replaces the file: whoever reads it after the death of this process or of the machine finds the old or the new
// one. writing is held, or nobody else has f.
func (f *stateFile) write() error {
	f.mu.Lock()
	changes := f.changes
	text, err := json.Marshal(sealed(f.states))
	f.mu.Unlock()
	if err == nil {
		err = replaceFile(f.path, 0o600, func(w io.Writer) error {
			_, err := w.Write(append(text, '\n'))
			return err
		})
	}
	if err == nil {
		f.written = changes
	}
	return err
}

// replaceFile is a variable for tests only.
var replaceFile = wholefile.Replace
