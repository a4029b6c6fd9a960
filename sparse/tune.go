package sparse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/wholefile"
	"github.com/khop-gnn/khop/unified"
)

// ErrTuning is returned for a file of choices that is damaged, or from another machine or version.
var ErrTuning = errors.New("sparse: choices that do not serve here")

// Tuning has the fastest strategies for SpMM, as measured on this machine, by a key of the operands. It is safe for
// concurrent use. No choice changes a result.
//
// The method is that of iSpLib (Alam, Hasan, Rahman et al., WWW Companion 2024), whose users choose the width that
// measures best; here the choice is made for each kind of operands.
type Tuning struct {
	mu      sync.RWMutex
	choices map[tuneKey]choice
	ways    map[string]string // see Way
}

// tuneKey tells apart the operands of SpMM that may need different strategies.
type tuneKey struct {
	Workers    int   `json:"workers"`
	IndexBytes int   `json:"index_bytes"`
	Weighted   bool  `json:"weighted"`
	Half       bool  `json:"half,omitempty"` // x has 16 bits
	Width      int64 `json:"width"`
	LogRows    int   `json:"log2_rows"`
	LogCols    int   `json:"log2_cols"`
	LogDegree  int   `json:"log2_degree"` // of 16 times the mean degree
}

// choice is a strategy, with the nanoseconds that it and the default took.
type choice struct {
	Kernel  string `json:"kernel"`
	Tile    int    `json:"tile"`
	Ahead   int    `json:"ahead"`
	Part    int64  `json:"part"`
	Group   int64  `json:"group"`
	Stream  bool   `json:"stream"`
	Took    int64  `json:"ns"`
	Default int64  `json:"default_ns"`
}

// tuneFile is what is stored, as JSON.
type tuneFile struct {
	Format    string      `json:"format"`
	Processor string      `json:"processor"`
	Kernel    string      `json:"kernel"`
	Choices   []tuneEntry `json:"choices"`

	Ways map[string]string `json:"ways,omitempty"`
}

type tuneEntry struct {
	tuneKey
	choice
}

const (
	tuneFormat = "khop-tune 1"
	tuneBegins = "{\n \"format\": \"khop-tune " // files of choices, of any version
)

// TuningPath returns the file in the user's cache directory where khop keeps choices.
func TuningPath() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "khop", "tune.json"), nil
}

// NewTuning returns a Tuning without choices.
func NewTuning() *Tuning { return &Tuning{choices: map[tuneKey]choice{}} }

// mostTuning is how many bytes a file of choices has at most.
const mostTuning = 16 << 20

// LoadTuning reads a file. It always returns a usable Tuning: one without choices, and no error, if there is no file;
// one without choices, and an ErrTuning that says why, if the file cannot be used.
func LoadTuning(path string) (*Tuning, error) {
	t := NewTuning()
	text, err := wholefile.Read(path, mostTuning)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = t.read(text)
	}
	if err != nil {
		return NewTuning(), fmt.Errorf("%s: %w: %w; \"khop tune\" writes a new one", path, ErrTuning, err)
	}
	return t, nil
}

// UnmarshalJSON adds choices that MarshalJSON wrote, in place of those of equal keys. It returns ErrTuning, and adds
// nothing, if they are from another machine or version.
func (t *Tuning) UnmarshalJSON(text []byte) error {
	if err := t.read(text); err != nil {
		return fmt.Errorf("%w: %w", ErrTuning, err)
	}
	return nil
}

func (t *Tuning) read(text []byte) error {
	var f tuneFile
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	if want := here(); f.Format != want.Format || f.Processor != want.Processor || f.Kernel != want.Kernel {
		return fmt.Errorf("it is %q of %q (%s), not %q of %q (%s)", f.Format, f.Processor, f.Kernel, want.Format,
			want.Processor, want.Kernel)
	}
	for _, e := range f.Choices {
		if _, err := e.strategy(); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.choices == nil {
		t.choices = map[tuneKey]choice{}
	}
	for _, e := range f.Choices {
		t.choices[e.tuneKey] = e.choice
	}
	for key, way := range f.Ways {
		t.keepWay(key, way)
	}
	return nil
}

// Way returns the order that KeepWay kept under a key, or "".
func (t *Tuning) Way(key string) string {
	if t == nil {
		return ""
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.ways[key]
}

// KeepWay keeps the fastest order of several operations, such as those of a layer, under a key that names their sizes.
// On a nil Tuning it does nothing.
func (t *Tuning) KeepWay(key, way string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keepWay(key, way)
}

// keepWay is KeepWay for a caller that holds the lock.
func (t *Tuning) keepWay(key, way string) {
	if t.ways == nil {
		t.ways = map[string]string{}
	}
	t.ways[key] = way
}

// here returns an empty file of this machine.
func here() tuneFile {
	return tuneFile{Format: tuneFormat, Processor: processor(), Kernel: Kernel()}
}

var processor = sync.OnceValue(func() string { return machine.Probe().Processor })

// strategy returns the strategy of a choice, if this processor has it.
func (c choice) strategy() (strategy, error) {
	at := slices.IndexFunc(variants(), func(v variant) bool { return v.String() == c.Kernel })
	if at < 0 {
		return strategy{}, fmt.Errorf("there is no kernel %q", c.Kernel)
	}
	p := strategy{variant: variants()[at], tile: c.Tile, ahead: c.Ahead, part: c.Part, group: c.Group, stream: c.Stream}
	if p.variant != plain && (p.tile < 1 || p.tile > p.variant.tile()) || p.ahead < 0 || p.ahead > 1<<16 ||
		p.part < 1 || p.group < 1 {
		return strategy{}, fmt.Errorf("a choice is out of range: %+v", c)
	}
	return p, nil
}

// MarshalJSON returns the choices in the form of the file, ordered by key.
func (t *Tuning) MarshalJSON() ([]byte, error) {
	f := here()
	t.mu.RLock()
	for k, c := range t.choices {
		f.Choices = append(f.Choices, tuneEntry{k, c})
	}
	f.Ways = maps.Clone(t.ways)
	t.mu.RUnlock()
	slices.SortFunc(f.Choices, func(a, b tuneEntry) int {
		return slices.Compare(a.order(), b.order())
	})
	return json.Marshal(f)
}

// order is a key as numbers, the width first.
func (k tuneKey) order() []int64 {
	n := []int64{k.Width, int64(k.LogRows), int64(k.LogCols), int64(k.LogDegree), int64(k.Workers),
		int64(k.IndexBytes), 0, 0}
	for i, set := range []bool{k.Weighted, k.Half} {
		if set {
			n[6+i] = 1
		}
	}
	return n
}

// Save writes the choices to a temporary file, which then replaces path; it makes folders. Choices of other keys in the
// file stay: another process may have made them meanwhile. A file of choices of another machine or version is replaced.
// Any other file is refused: fs.ErrExist.
func (t *Tuning) Save(path string) error {
	mine, err := t.MarshalJSON()
	if err != nil {
		return err
	}
	all, _ := LoadTuning(path)
	if err := all.UnmarshalJSON(mine); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file := wholefile.Output{Path: path, Mode: 0o600, Ours: wholefile.Begins(tuneBegins), Kept: true}
	return file.Write(context.Background(), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// find returns the strategy for a key, else the default.
func (t *Tuning) find(k tuneKey, otherwise strategy) strategy {
	if t == nil {
		return otherwise
	}
	t.mu.RLock()
	c, ok := t.choices[k]
	t.mu.RUnlock()
	if p, err := c.strategy(); ok && err == nil {
		return p
	}
	return otherwise
}

func keyOf(workers int, a *Matrix, values, x unified.Tensor) tuneKey {
	return tuneKey{Half: half(x), Workers: workers, IndexBytes: a.indexBytes(), Weighted: values.Valid(),
		Width: x.Width(), LogRows: bits.Len64(uint64(a.rows)), LogCols: bits.Len64(uint64(a.cols)),
		LogDegree: bits.Len64(uint64(16 * a.edges / max(a.rows, 1)))}
}

// Tuned is what Tune found for one key.
type Tuned struct {
	Width    int64         `json:"width"`
	Weighted bool          `json:"weighted"`
	Default  time.Duration `json:"default_ns"` // of the default strategy
	Best     time.Duration `json:"best_ns"`
	Choice   string        `json:"choice"`
}

// Tune measures the fastest strategy for SpMM of such operands, and keeps the choice in t, which later calls of SpMM by
// pools with that Tuning use. It writes the sum to y. A candidate differs in one property from the best so far, and
// runs alternately with it, rounds times. Only a clear winner is chosen, so the choice is never slower than the
// default, except by noise.
func (p *Pool) Tune(t *Tuning, y unified.Tensor, a *Matrix, values, x unified.Tensor, rounds int) (Tuned, error) {
	if err := checkSpMM(y, Sum, a, values, x); err != nil {
		return Tuned{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return Tuned{}, ErrClosed
	}
	width := x.Width()
	first := defaultStrategy(a, width)
	r := Tuned{Width: width, Weighted: values.Valid()}
	if a.rows == 0 || width == 0 {
		return r, nil
	}
	p.spmm.set(y, Sum, a, values, x)
	best := first
	for _, change := range changes {
		c := best
		if !change(&c) || c == best {
			continue
		}
		had, has, err := p.duel(best, c, rounds)
		if err != nil {
			return r, err
		}
		if has < had*97/100 {
			best = c
		}
	}
	var err error
	if r.Default, r.Best, err = p.duel(first, best, rounds); err != nil {
		return r, err
	}
	if r.Best > r.Default {
		best, r.Best = first, r.Default
	}
	c := choice{best.variant.String(), best.tile, best.ahead, best.part, best.group, best.stream, int64(r.Best),
		int64(r.Default)}
	r.Choice = fmt.Sprintf("%s, tiles of %d, %d ahead, parts of %d", c.Kernel, c.Tile, c.Ahead, c.Part)
	if c.Stream {
		r.Choice += ", past the caches"
	}
	t.mu.Lock()
	t.choices[keyOf(p.workers, a, values, x)] = c
	t.mu.Unlock()
	return r, nil
}

// changes make candidates of a strategy, or report that there is none.
var changes = []func(*strategy) bool{
	func(p *strategy) bool { p.ahead = 8; return p.variant != plain },
	func(p *strategy) bool { p.ahead = 32; return p.variant != plain },
	func(p *strategy) bool { p.ahead = 64; return p.variant != plain },
	func(p *strategy) bool { p.stream = !p.stream; return p.variant != plain },
	func(p *strategy) bool { p.tile /= 2; return p.tile > 0 },
	func(p *strategy) bool { p.tile /= 4; return p.tile > 0 },
	func(p *strategy) bool { p.part = max(p.part/4, 64); return true },
	func(p *strategy) bool { p.part *= 4; return true },
	func(p *strategy) bool {
		if p.variant != avx512 {
			return false
		}
		p.variant, p.tile = avx2, maxAVX2
		return true
	},
}

// duel runs two strategies in turn and returns the median time of each. The caller has set the operands.
func (p *Pool) duel(one, other strategy, rounds int) (time.Duration, time.Duration, error) {
	times := [2][]time.Duration{}
	for range max(rounds, 1) + 1 { // the first ones warm up
		for i, pl := range []strategy{one, other} {
			p.spmm.strategy = pl
			parts := p.spmm.prepare(p.workers)
			start := time.Now()
			if err := p.run(&p.spmm, parts); err != nil {
				return 0, 0, err
			}
			times[i] = append(times[i], time.Since(start))
		}
	}
	median := func(t []time.Duration) time.Duration {
		t = t[1:]
		slices.Sort(t)
		return t[len(t)/2]
	}
	return median(times[0]), median(times[1]), nil
}
