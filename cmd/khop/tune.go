package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/paths"
	"github.com/khop-gnn/khop/internal/rowsample"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sparse"
	"github.com/khop-gnn/khop/unified"
)

type tuneCmd struct {
	Dataset string `arg:"" help:"Dataset directory, or its address in a store."`

	flagsOf[tuneOptions] `embed:""`
	plotFlags            `embed:"" set:"plot_of=the speed-up by width"`

	jsonFlag `embed:""`
}

// tuneOptions say what is measured.
type tuneOptions struct {
	Widths  widths `default:"16..1024" kind:"text" help:"..."`
	Rounds  int    `default:"5" range:"1," help:"Measurements per candidate; the median counts."`
	Workers int    `default:"0" range:"0,32767" help:"Goroutines; 0: one per core. They change no result."`
	File    string `kind:"path" value:"FILE" help:"..."`
}

// widths is the value of --widths.
type widths []int64

const maxWidth = 1 << 16

// UnmarshalText reads "16..1024" or "16,47".
func (w *widths) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "..")
	*w = nil
	for _, part := range strings.Split(from, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || n < 1 || n > maxWidth || isRange && len(*w) > 0 {
			return fmt.Errorf("widths are 1 to %d, such as 16..1024 or 16,47: %q", maxWidth, text)
		}
		*w = append(*w, n)
	}
	if isRange {
		last, err := strconv.ParseInt(strings.TrimSpace(to), 10, 64)
		if err != nil || last < (*w)[0] || last > maxWidth {
			return fmt.Errorf("widths end with a number from the first to %d: %q", maxWidth, text)
		}
		for n := 2 * (*w)[0]; n <= last; n *= 2 {
			*w = append(*w, n)
		}
	}
	return nil
}

// tuneResult is what "khop tune --json" prints. Scripts rely on the names.
type tuneResult struct {
	Dataset string         `json:"dataset"`
	File    string         `json:"file"`
	Kernel  string         `json:"kernel"`
	Workers int            `json:"workers"`
	Tuned   []sparse.Tuned `json:"tuned"`
	Sampled sampledTime    `json:"sampled"`
}

// sampledTime says whether gradients of some rows pay: what a backward product takes with all of them, and with a tenth
// of the work, drawn anew. The width is that of --widths which is nearest to the features'.
type sampledTime struct {
	Degree   float64       `json:"mean_degree"`
	Features int64         `json:"features"`
	Width    int64         `json:"width"`
	Exact    time.Duration `json:"exact_ns"`
	Sampled  time.Duration `json:"sampled_ns"`
}

// Run tunes sums over the whole graph, with values of edges and without, width by width.
func (c *tuneCmd) Run(env *environment) (err error) {
	ds, err := c.plotFlags.openDataset(env, &c.tagFlags, c.Dataset, c.opt.File)
	if err != nil {
		return err
	}
	defer closing(&err, ds.Close)
	a, err := sparse.Whole(ds.Graph())
	if err != nil {
		return err
	}
	tuning, path, err := env.tuning(c.opt.File)
	if err != nil {
		return err
	}
	if err := c.fits(env, a); err != nil {
		return err
	}
	pool := sparse.Open(sparse.Options{Workers: c.opt.Workers})
	defer pool.Close()
	r := tuneResult{Dataset: paths.Text(c.Dataset), File: paths.Text(path), Kernel: sparse.Kernel(),
		Workers: pool.Workers()}
	r.Tuned, _, err = watched(env, func(bar *progress) (tuned []sparse.Tuned, err error) {
		report := bar.of("tuning")
		for i, width := range c.opt.Widths {
			found, err := c.tune(env, pool, tuning, a, width)
			if err == nil {
				err = tuning.Save(path) // what was measured is kept, whatever comes
			}
			if err != nil {
				return nil, fmt.Errorf("width %d: %w", width, err)
			}
			tuned = append(tuned, found...)
			if report != nil {
				report(int64(i+1), int64(len(c.opt.Widths)))
			}
		}
		return tuned, nil
	})
	if err != nil {
		return err
	}
	if r.Sampled, err = c.sampled(env, pool, ds.Graph(), a); err != nil {
		return err
	}
	if err := draw(env, c.plotFlags, r.Dataset, r); err != nil {
		return err
	}
	return c.show(env, r, r.print)
}

// transposeBytes is what the transpose of a matrix takes, an edge.
const transposeBytes = 12

// fits says before anything is measured what the widest rows need, where that is more than the limit.
func (c *tuneCmd) fits(env *environment, a *sparse.Matrix) error {
	width := slices.Max(c.opt.Widths)
	need := 4*((a.Cols()+a.Rows())*width+a.Edges()) + transposeBytes*a.Edges()
	if err := env.memory.Take(pinned.Scratch, need); err != nil {
		return fmt.Errorf("rows of %d columns, for all nodes twice: %w, or take narrower --widths", width, err)
	}
	env.memory.Give(pinned.Scratch, need)
	return nil
}

// operands allocates x [columns, width], y [rows, width] and values of edges, and fills them.
func (c *tuneCmd) operands(env *environment, a *sparse.Matrix, width int64,
	f func(x, y, values unified.Tensor) error) (err error) {
	var operands [3]unified.Tensor
	for i, shape := range [][]int64{{a.Cols(), width}, {a.Rows(), width}, {a.Edges()}} {
		region, err := pinned.Allocate(4*shape[0]*append(shape, 1)[1],
			pinned.Options{Ledger: &env.memory.Ledger, Purpose: pinned.Scratch})
		if err != nil {
			return err
		}
		defer closing(&err, region.Close)
		if operands[i], err = unified.New(unified.Float32, region.Bytes(), shape...); err != nil {
			return err
		}
		v, _ := unified.View[float32](operands[i])
		for k := range v {
			v[k] = float32(k%7) - 3
		}
	}
	return f(operands[0], operands[1], operands[2])
}

// tune measures one width, on random rows.
func (c *tuneCmd) tune(env *environment, pool *sparse.Pool, tuning *sparse.Tuning, a *sparse.Matrix,
	width int64) (found []sparse.Tuned, err error) {
	err = c.operands(env, a, width, func(x, y, values unified.Tensor) error {
		for _, v := range []unified.Tensor{{}, values} {
			if env.ctx.Err() != nil {
				return env.ctx.Err()
			}
			one, err := pool.Tune(tuning, y, a, v, x, c.opt.Rounds)
			if err != nil {
				return err
			}
			found = append(found, one)
		}
		return nil
	})
	return found, err
}

// sampled measures backward products of all rows and of some in turns. The medians count.
func (c *tuneCmd) sampled(env *environment, pool *sparse.Pool, g *graph.Graph,
	a *sparse.Matrix) (s sampledTime, err error) {
	s = sampledTime{Degree: float64(a.Edges()) / float64(max(a.Rows(), 1)), Width: slices.Max(c.opt.Widths)}
	if x, ok := g.NodeColumn(0, "x"); ok {
		s.Features = x.Width()
		s.Width = slices.MinFunc(c.opt.Widths, func(v, w int64) int {
			return cmp.Compare(max(v-s.Features, s.Features-v), max(w-s.Features, s.Features-w))
		})
	}
	err = env.memory.Take(pinned.Scratch, transposeBytes*a.Edges())
	if err != nil {
		return s, err
	}
	defer env.memory.Give(pinned.Scratch, transposeBytes*a.Edges())
	var exact, some []time.Duration
	err = c.operands(env, a, s.Width, func(dx, dy, _ unified.Tensor) error {
		site := rowsample.Site{Matrix: a}
		for round := range c.opt.Rounds + 1 { // the first makes the transpose
			start := time.Now()
			err := pool.SpMM(dx, sparse.Sum, a.Transpose(), unified.Tensor{}, dy)
			middle := time.Now()
			if err == nil {
				err = site.Choose(pool, uint64(round), usualBudget, dy)
			}
			if err == nil {
				err = site.Multiply(pool, dx, dy)
			}
			if err = cmp.Or(err, env.ctx.Err()); err != nil {
				return err
			}
			if round > 0 {
				exact, some = append(exact, middle.Sub(start)), append(some, time.Since(middle))
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	slices.Sort(exact)
	slices.Sort(some)
	s.Exact, s.Sampled = exact[len(exact)/2], some[len(some)/2]
	return s, nil
}

// usualBudget is what is measured of "khop train --backward-budget".
const usualBudget = 0.1

// String says in a sentence whether sampled gradients pay.
func (s sampledTime) String() string {
	pays := "pay"
	if 10*s.Exact < 11*s.Sampled {
		pays = "do not pay"
	}
	near := ""
	if s.Features > 0 && s.Features != s.Width {
		near = fmt.Sprintf(", nearest to the %d of the features,", s.Features)
	}
	return fmt.Sprintf("sampled gradients (khop train --backward-budget %g) %s here: at a mean degree of %.1f a "+
		"backward product of %d columns%s takes %s exact and %s sampled", usualBudget, pays, s.Degree, s.Width, near,
		durationText(s.Exact), durationText(s.Sampled))
}

// tuning loads the choices of a file, the user's where none is named. What does not serve is ignored with a note.
func (env *environment) tuning(path string) (*sparse.Tuning, string, error) {
	if path == "" {
		var err error
		if path, err = sparse.TuningPath(); err != nil {
			return nil, "", fmt.Errorf("%w: name a file with --file", err)
		}
	}
	t, err := sparse.LoadTuning(path)
	if err != nil {
		env.note("%v", err)
	}
	return t, path, nil
}

func (r *tuneResult) print(env *environment) error {
	fmt.Fprintf(env.stdout, "%s: kernel %s, %d workers; choices in %s\n", r.Dataset, r.Kernel, r.Workers, r.File)
	t := newTable(env.stdout)
	t.row("width", "values", "untuned", "tuned", "speed-up", "choice")
	for _, f := range r.Tuned {
		t.row(f.Width, map[bool]string{true: "yes", false: "no"}[f.Weighted], durationText(f.Default),
			durationText(f.Best), fmt.Sprintf("%.2f", speedUp(f)), f.Choice)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, r.Sampled)
	return nil
}

func speedUp(t sparse.Tuned) float64 {
	return float64(t.Default) / float64(max(t.Best, time.Nanosecond))
}
