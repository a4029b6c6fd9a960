package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/remote"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
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
		d.place.put(dataName+"/"+path.Base(task)+".0123456789abcdef/edges-0", []byte("half"))
		d.must(task)
	},
}

// smallDisk returns a folder for what tasks write, and adds a fault, where the system can have a full disk.
var smallDisk = func(t *testing.T) string { return t.TempDir() }

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
	t     *testing.T
	r     *rand.Rand
	from  drawnPlace // where the source is
	place drawnPlace // the working folder
	late  []string   // that come once more when others are done
	disk  string     // the folder of all that is written
	full  int        // tasks that have failed for want of room
}

// drawnPlace is a folder, or one of a store.
type drawnPlace interface {
	names() []string // of files in it
	get(name string) []byte
	put(name string, text []byte)
}

type drawnFolder struct {
	t   *testing.T
	dir string
}

func (f drawnFolder) names() (list []string) {
	expect.OK(f.t, filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name, _ := filepath.Rel(f.dir, path)
			list = append(list, filepath.ToSlash(name))
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}))
	return list
}

func (f drawnFolder) get(name string) []byte {
	return expect.Must(os.ReadFile(filepath.Join(f.dir, name)))(f.t)
}

func (f drawnFolder) put(name string, text []byte) {
	put(f.t, f.dir, map[string][]byte{name: text})
}

type drawnStore struct {
	s      *stores.Store
	prefix string
}

func (s drawnStore) names() (list []string) {
	for _, name := range s.s.Names() {
		if rest, ok := strings.CutPrefix(name, s.prefix+"/"); ok {
			list = append(list, rest)
		}
	}
	return list
}

func (s drawnStore) get(name string) []byte {
	text, _ := s.s.Get(s.prefix + "/" + name)
	return slices.Clone(text)
}

func (s drawnStore) put(name string, text []byte) { s.s.Put(s.prefix+"/"+name, text) }

func (d *drawnTasks) must(task string) {
	d.t.Helper()
	_, err := RunTask(context.Background(), task, Options{})
	expect.Ensure(d.t, err == nil, "%s: %v", task, err)
}

// places draws where the source and the dataset are: in folders, or in a store that fails now and then.
func (d *drawnTasks) places(s *stores.Store, draw int, file string) (src, dst string) {
	dst = filepath.Join(d.disk, fmt.Sprintf("%d-tasks", draw))
	d.from, d.place = drawnFolder{d.t, filepath.Dir(file)}, drawnFolder{d.t, workOf(dst)}
	if d.r.IntN(3) > 0 {
		return file, dst
	}
	d.t.Setenv("KHOP_CACHE_DIR", d.t.TempDir())
	name := fmt.Sprintf("bucket/%d/", draw)
	d.from, d.place = drawnStore{s, name + "raw"}, drawnStore{s, name + "x.khop.khop-tasks"}
	d.from.put("edges.csv", expect.Must(os.ReadFile(file))(d.t))
	faulty(s, d.r)
	return "s3://" + name + "raw/edges.csv", "s3://" + name + "x.khop"
}

// damage flips a bit of what a task has made, or cuts it, and reports whether it found something.
func (d *drawnTasks) damage() bool {
	files := slices.DeleteFunc(d.place.names(), func(name string) bool {
		return !strings.HasPrefix(name, dataName+"/") || strings.HasSuffix(name, ".json") ||
			path.Base(name)[0] == '.' || len(d.place.get(name)) == 0
	})
	if len(files) == 0 {
		return false
	}
	file := files[d.r.IntN(len(files))]
	text := d.place.get(file)
	if d.r.IntN(3) == 0 {
		text = text[:d.r.IntN(len(text))]
	} else {
		text[d.r.IntN(len(text))] ^= 1 << d.r.IntN(8)
	}
	d.place.put(file, text)
	return true
}

// faulty has a store answer some requests badly, never two of them.
func faulty(s *stores.Store, r *rand.Rand) {
	seed := r.Uint64()
	s.Fail(func(n int, r *http.Request) stores.Fault {
		draw := rand.New(rand.NewPCG(seed, uint64(n))).IntN(40)
		write := r.Method == http.MethodPut || r.Method == http.MethodPost
		switch {
		case draw < 3:
			return stores.Busy
		case draw < 5 && !write:
			return stores.Cut
		case draw == 5 && r.Method == http.MethodPut:
			return stores.Lost
		case draw == 6 && n%8 == 0 && !write:
			return stores.Stalls
		}
		return stores.None
	})
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

// saysWhy reports whether an error, if it is one, says that something was damaged or changed, or is not there.
func saysWhy(err error) bool {
	for _, why := range []error{formats.ErrCorrupt, formats.ErrChanged, source.ErrChanged, os.ErrNotExist} {
		if errors.Is(err, why) {
			return true
		}
	}
	return err == nil
}

// stages runs all tasks. Behind a stage something bad happens, if it can, and the stages behind it may fail by that.
// It returns what bad has happened.
func (d *drawnTasks) stages(draw int, stages [][]string, at int, bad string, count map[string]int) string {
	for s, stage := range stages {
		for _, k := range d.r.Perm(len(stage)) {
			name := []string{"once", "killed", "doubled", "late", "half", "full"}[d.r.IntN(6)]
			if bad != "" && s > at {
				_, err := RunTask(d.t.Context(), stage[k], Options{})
				expect.That(d.t, saysWhy(err), "%d: %s: %v", draw, bad, err)
				continue
			}
			if faults[name] == nil {
				name = "once"
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
			d.from.put("edges.csv", append(d.from.get("edges.csv"), "1,0,1.5,1\n"...))
		}
	}
	return bad
}

// TestDrawnTasksMakeTheDatasetOrSayWhatIsWrong: tasks are killed, doubled, late, and what they have made is damaged
// or the source changed in between. Some of them go through a store, which fails now and then. KHOP_DRAWS says how
// often.
func TestDrawnTasksMakeTheDatasetOrSayWhatIsWrong(t *testing.T) {
	draws := expect.Draws(t, 8)
	seed, count := expect.Seed(t), map[string]int{}
	store := stores.New(t)
	disk := smallDisk(t)
	t.Setenv("TMPDIR", filepath.Join(disk, "tmp"))
	expect.OK(t, os.Mkdir(os.Getenv("TMPDIR"), 0o700))
	for i := range draws {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		src, opt := drawSource(t, r)
		whole := filepath.Join(t.TempDir(), "whole")
		expect.Must(Run(t.Context(), src, whole, opt))(t)
		d := &drawnTasks{t: t, r: r, disk: disk}
		src, dst := d.places(store, i, src)
		count[src[:2]+" source"]++
		stages := expect.Must(PlanTasks(t.Context(), src, dst, 1+r.IntN(6), opt))(t)
		bad := []string{"", "", "damaged", "changed"}[r.IntN(4)]
		at := r.IntN(len(stages) - 1) // behind which stage
		count[bad+" runs"]++
		bad = d.stages(i, stages, at, bad, count)
		got, err := remote.Open(t.Context(), dst, remote.Options{})
		want := expect.Must(formats.Open(whole))(t)
		expect.That(t, err == nil || bad != "", "%d: %+v: no dataset: %v", i, opt, err)
		if err == nil {
			expect.That(t, got.ID() == want.ID(), "%d: %s: %+v: another dataset", i, bad, opt)
			expect.OK(t, got.Close())
			count[bad+" made"]++
		}
		expect.OK(t, want.Close(), CleanTasks(t.Context(), dst))
		beside, _ := filepath.Glob(workOf(dst) + "*")
		left := append(beside, d.place.names()...)
		expect.That(t, len(left) == 0, "%d: left behind: %q", i, left)
		store.Fail(nil)
		count["failed on a full disk"] += d.full
		expect.OK(t, os.RemoveAll(dst))
	}
	left := expect.Must(os.ReadDir(os.Getenv("TMPDIR")))(t)
	expect.That(t, len(left) == 0, "left behind: %v", left)
	t.Log(count)
}
