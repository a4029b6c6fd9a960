package convert

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// faults are what happens to a task before it is done.
var faults = map[string]func(d *drawnTasks, task string){
	"once": func(d *drawnTasks, task string) { d.must(task) },
	"killed": func(d *drawnTasks, task string) { // at any look at the context, as often as it likes
		for range 1 + d.r.IntN(3) {
			_, _ = RunTask(&dying{Context: context.Background(), left: d.r.IntN(12)}, task, Options{})
		}
		d.must(task)
	},
	"doubled": func(d *drawnTasks, task string) { // at the same time
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { _, _ = RunTask(context.Background(), task, Options{}) })
		}
		both.Wait()
		d.must(task)
	},
	"late": func(d *drawnTasks, task string) { d.must(task); d.late = append(d.late, task) },
	"half": func(d *drawnTasks, task string) { // an attempt that a machine took with it
		dir := filepath.Join(d.work, dataName, filepath.Base(task)+".0123456789abcdef")
		expect.OK(d.t, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "edges-0"), []byte("half"), 0o600))
		d.must(task)
	},
}

// dying is a context that ends after some looks at it.
type dying struct {
	context.Context
	left int
}

func (c *dying) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// drawnTasks is a drawn conversion in tasks.
type drawnTasks struct {
	t    *testing.T
	r    *rand.Rand
	work string
	late []string // that come once more when others are done
}

func (d *drawnTasks) must(task string) {
	d.t.Helper()
	_, err := RunTask(context.Background(), task, Options{})
	expect.Ensure(d.t, err == nil, "%s: %v", task, err)
}

// damage flips a bit of what a task has made, or cuts it, and reports whether it found something.
func (d *drawnTasks) damage() bool {
	var files []string
	data := filepath.Join(d.work, dataName)
	expect.OK(d.t, filepath.WalkDir(data, func(path string, _ os.DirEntry, err error) error {
		if st, e2 := os.Stat(path); err == nil && e2 == nil && st.Mode().IsRegular() && st.Size() > 0 &&
			!strings.HasSuffix(path, ".json") && filepath.Base(path)[0] != '.' {
			files = append(files, path)
		}
		return err
	}))
	if files == nil {
		return false
	}
	file := files[d.r.IntN(len(files))]
	text := expect.Must(os.ReadFile(file))(d.t)
	if d.r.IntN(3) == 0 {
		text = text[:d.r.IntN(len(text))]
	} else {
		text[d.r.IntN(len(text))] ^= 1 << d.r.IntN(8)
	}
	expect.OK(d.t, os.WriteFile(file, text, 0o600))
	return true
}

// drawSource draws an edge list and options.
func drawSource(t *testing.T, r *rand.Rand) (src string, opt Options) {
	var text strings.Builder
	text.WriteString("src,dst,weight,time\n")
	prefix, nodes := []string{"", "n"}[r.IntN(2)], 2+r.IntN(60)
	for range 1 + r.IntN(400) {
		fmt.Fprintf(&text, "%s%d,%s%d,%d.5,%d\n", prefix, r.IntN(nodes), prefix, r.IntN(1+r.IntN(nodes)), r.IntN(90),
			r.IntN(90))
	}
	opt = Options{Direction: Direction(r.IntN(3)), Merge: Merge(r.IntN(4)), Loops: Loops(r.IntN(3)),
		ByTime: r.IntN(2) == 0, Reorder: []Reorder{0, ByDegree, BreadthFirst}[r.IntN(3)]}
	return write(t, "edges.csv", text.String()), opt
}

// TestDrawnTasksMakeTheDatasetOrSayWhatIsWrong: tasks are killed, doubled, late, and what they have made is damaged
// or the source changed in between. KHOP_DRAWS says how often.
func TestDrawnTasksMakeTheDatasetOrSayWhatIsWrong(t *testing.T) {
	draws := 8
	if s := os.Getenv("KHOP_DRAWS"); s != "" {
		draws = expect.Must(strconv.Atoi(s))(t)
	}
	seed, count := expect.Seed(t), map[string]int{}
	for i := range draws {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		src, opt := drawSource(t, r)
		whole := filepath.Join(t.TempDir(), "whole")
		expect.Must(Run(t.Context(), src, whole, opt))(t)
		dst := filepath.Join(t.TempDir(), "tasks")
		stages := expect.Must(PlanTasks(t.Context(), src, dst, 1+r.IntN(6), opt))(t)
		d := &drawnTasks{t: t, r: r, work: workOf(dst)}
		bad := []string{"", "", "damaged", "changed"}[r.IntN(4)]
		at := r.IntN(len(stages) - 1) // behind which stage
		count[bad+" runs"]++
		for s, stage := range stages {
			for _, k := range r.Perm(len(stage)) {
				name := []string{"once", "killed", "doubled", "late", "half"}[r.IntN(5)]
				if bad != "" && s > at {
					_, err := RunTask(t.Context(), stage[k], Options{})
					if err != nil && !errors.Is(err, formats.ErrCorrupt) && !errors.Is(err, source.ErrChanged) &&
						!errors.Is(err, os.ErrNotExist) {
						t.Errorf("%d: %s: %v", i, bad, err)
					}
					continue
				}
				count[name]++
				faults[name](d, stage[k])
			}
			for _, task := range d.late {
				d.must(task)
			}
			if s == at && bad == "damaged" && !d.damage() {
				bad = ""
			}
			if s == at && bad == "changed" {
				text := expect.Must(os.ReadFile(src))(t)
				expect.OK(t, os.WriteFile(src, append(text, "1,0,1.5,1\n"...), 0o600))
			}
		}
		got, err := formats.Open(dst)
		want := expect.Must(formats.Open(whole))(t)
		switch {
		case err == nil:
			expect.That(t, got.ID() == want.ID(), "%d: %s: %+v: another dataset", i, bad, opt)
			expect.OK(t, got.Close())
			count[bad+" made"]++
		default:
			expect.That(t, bad != "", "%d: %+v: no dataset: %v", i, opt, err)
		}
		expect.OK(t, want.Close(), CleanTasks(t.Context(), dst))
		left := expect.Must(os.ReadDir(filepath.Dir(dst)))(t)
		expect.That(t, len(left) == 0 || len(left) == 1 && err == nil, "%d: left behind: %v", i, left)
	}
	t.Log(count)
}
