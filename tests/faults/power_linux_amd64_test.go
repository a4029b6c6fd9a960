//go:build !race

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats"

	"github.com/khop-gnn/khop/internal/expect"
)

// recorder logs what a traced program does to a directory.
type recorder struct {
	*disk
	dir  string
	deny func(c *call) action // what fails all the same; nil for nothing
}

// within returns a path relative to the directory, and whether it is in it.
func (rec *recorder) within(path string) (string, bool) {
	rel, err := filepath.Rel(rec.dir, path)
	return rel, err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// enter notes what a call is about: afterwards a name may stand for something else.
func (rec *recorder) enter(c *call) (a action) {
	switch c.nr {
	case unix.SYS_OPENAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_FSYNC, unix.SYS_FTRUNCATE, unix.SYS_WRITE,
		unix.SYS_PWRITE64:
		path, ok := rec.within(c.object())
		if !ok {
			return a
		}
		n := noted{path: path}
		if c.nr == unix.SYS_WRITE || c.nr == unix.SYS_PWRITE64 {
			n.data = c.memory(c.args[1], int(c.args[2]))
			n.offset = int64(c.args[3])
			if c.nr == unix.SYS_WRITE {
				n.offset = position(c)
			}
		}
		c.note = n
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		from, ok1 := rec.within(c.path(c.args[0], c.args[1]))
		to, ok2 := rec.within(c.path(c.args[2], c.args[3]))
		if ok1 && ok2 {
			c.note = noted{path: from, to: to}
		}
	}
	if rec.deny != nil {
		a = rec.deny(c)
	}
	return a
}

type noted struct {
	path, to string
	data     []byte
	offset   int64
}

// position returns where in a file the next write goes.
func position(c *call) (n int64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", c.pid, int32(c.args[0])))
	_, _ = fmt.Sscanf(string(text), "pos: %d", &n)
	return n
}

// exit logs a call that did what it was to do.
func (rec *recorder) exit(c *call) {
	n, ok := c.note.(noted)
	if !ok || c.ret < 0 {
		return
	}
	switch c.nr {
	case unix.SYS_OPENAT:
		if c.args[2]&unix.O_CREAT != 0 {
			rec.make(n.path, false)
		}
		if c.args[2]&unix.O_TRUNC != 0 {
			rec.resize(n.path, 0)
		}
	case unix.SYS_MKDIRAT:
		rec.make(n.path, true)
	case unix.SYS_UNLINKAT:
		rec.remove(n.path)
	case unix.SYS_FSYNC:
		rec.sync(n.path)
	case unix.SYS_FTRUNCATE:
		rec.resize(n.path, int64(c.args[1]))
	case unix.SYS_WRITE, unix.SYS_PWRITE64:
		rec.write(n.path, n.offset, n.data[:c.ret])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		rec.rename(n.path, n.to, c.nr == unix.SYS_RENAMEAT2 && c.args[4]&unix.RENAME_EXCHANGE != 0)
	}
}

// A command that makes or replaces a dataset is logged, and its log replayed up to every event, as if the power went
// there. The old dataset or the new one is there, whole; when the command has ended, the new one; and the next writer
// clears away the remains.
func TestALossOfPowerLeavesTheOldDatasetOrTheNewOne(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	unsupported := func(c *call) (a action) {
		if c.nr == unix.SYS_RENAMEAT2 {
			a.errno = unix.EINVAL
		}
		return a
	}
	for _, s := range []struct {
		name string
		args []string
		old  bool
		deny func(c *call) action
	}{
		{"a new dataset", []string{"convert", "edges.txt", "data"}, false, nil},
		{"replaced in one step", []string{"convert", "edges.txt", "data", "--force"}, true, nil},
		{"replaced by renaming", []string{"convert", "edges.txt", "data", "--force"}, true, unsupported},
		{"generated", []string{"generate", "sbm", "data", "--nodes", "50", "--force"}, true, nil},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p := newPowerTest(t, seed, s.args, s.old, s.deny)
			for n := range len(p.disk.log) + 1 {
				if drawn(p.r, 8) || n == len(p.disk.log) {
					p.loseAt(t, n)
				}
			}
			t.Logf("seed %d: %d events, %d states: %v", seed, len(p.disk.log), p.states, p.found)
		})
	}
}

type powerTest struct {
	dir   string // to restore the disk in
	disk  *disk
	r     *rand.Rand
	oldID string
	newID string

	states int
	found  map[string]int
}

func newPowerTest(t *testing.T, seed uint64, args []string, old bool, deny func(c *call) action) *powerTest {
	base := scratch(t)
	dir := filepath.Join(base, "d")
	data := filepath.Join(dir, "data")
	must(t, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "edges.txt"), []byte(edges(40)), 0o600))
	p := &powerTest{dir: filepath.Join(base, "after"), r: rand.New(rand.NewPCG(seed, 0)), oldID: none,
		found: map[string]int{}}
	if old {
		_, err := program(dir, "generate", "sbm", "data", "--nodes", "40", "--seed", "9")
		must(t, err)
		p.oldID, err = whole(data)
		must(t, err)
	}
	var err error
	p.disk, err = newDisk(dir)
	must(t, err)
	rec := &recorder{disk: p.disk, dir: dir, deny: deny}
	r := trace(t, dir, hooks{enter: rec.enter, exit: rec.exit}, nil, append([]string{khop}, args...)...)
	expect.Ensure(t, r.status == 0, "%+v", r)
	p.newID, err = whole(data)
	must(t, err)
	expect.Ensure(t, p.newID != p.oldID && p.newID != none, "%s became %s", p.oldID, p.newID)
	must(t, p.disk.restore(p.dir, len(p.disk.log), p.disk.first(len(p.disk.log), len(p.disk.log)), kept, p.r))
	if id, err := whole(filepath.Join(p.dir, "data")); id != p.newID || err != nil || names(t, p.dir) != names(t, dir) {
		t.Fatalf("the log is not what happened: %s, %v, %s", id, err, names(t, p.dir))
	}
	return p
}

// loseAt tries what a loss of power after the first n events may leave.
func (p *powerTest) loseAt(t *testing.T, n int) {
	t.Helper()
	least := p.disk.least(n)
	from := 0
	for _, k := range least {
		from = max(from, k)
	}
	p.try(t, n, least, dropped)
	p.try(t, n, least, kept)
	p.try(t, n, least, fates)
	for range 3 { // a journal: names change in the order in which they were changed
		p.try(t, n, p.disk.first(n, from+p.r.IntN(n-from+1)), fates)
	}
	for range 6 {
		p.try(t, n, p.disk.any(n, p.r), fates)
	}
}

func (p *powerTest) try(t *testing.T, n int, s survivors, f fate) {
	t.Helper()
	must(t, os.RemoveAll(p.dir), p.disk.restore(p.dir, n, s, f, p.r))
	p.states++
	data := filepath.Join(p.dir, "data")
	id, err := whole(data)
	last := n == len(p.disk.log)
	switch {
	case err != nil:
		t.Errorf("after %d events: %v", n, err)
	case id != p.newID && id != p.oldID || last && id != p.newID:
		t.Errorf("after %d of %d events: the dataset is %s, it was %s and becomes %s", n, len(p.disk.log), id, p.oldID,
			p.newID)
	}
	p.found[map[string]string{p.oldID: "old", p.newID: "new"}[id]]++
	w, err := formats.Create(data, formats.WriterOptions{Force: true})
	if err != nil {
		t.Errorf("after %d events: the next writer: %v", n, err)
		return
	}
	must(t, w.Abort())
	want := "data edges.txt"
	if id == none {
		want = "edges.txt"
	}
	list := names(t, p.dir)
	if id == none && list == "data edges.txt" && names(t, data) == "" {
		list = want // the directory without anything in it
	}
	if again, err := whole(data); again != id || err != nil || list != want {
		t.Errorf("after %d events: the next writer leaves %s, %v, %s", n, again, err, list)
	}
}
