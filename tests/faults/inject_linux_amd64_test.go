//go:build !race

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/integrations/shm/consumer"

	"github.com/khop-gnn/khop/internal/expect"
)

func fail(errs ...unix.Errno) []action {
	var list []action
	for _, e := range errs {
		list = append(list, action{errno: e})
	}
	return list
}

var (
	short  = []action{{short: true}}
	reads  = append(fail(unix.EIO, unix.EINTR), short...)
	writes = append(fail(unix.EIO, unix.ENOSPC, unix.EINTR), short...)
	names1 = fail(unix.EIO, unix.ENOSPC)
	locks  = fail(unix.EIO, unix.EINTR)
	socket = fail(unix.EIO, unix.EMFILE)
	talk   = fail(unix.EIO, unix.EINTR, unix.ENOBUFS)
)

// faults are what becomes of each system call in turn. Calls of Go's runtime alone are not among them.
var faults = map[uint64][]action{
	unix.SYS_OPENAT: fail(unix.EIO, unix.EMFILE, unix.EINTR, unix.ENOSPC), unix.SYS_CLOSE: fail(unix.EIO, unix.EINTR),
	unix.SYS_READ: reads, unix.SYS_PREAD64: reads, unix.SYS_GETDENTS64: fail(unix.EIO),
	unix.SYS_WRITE: writes, unix.SYS_PWRITE64: writes, unix.SYS_FSYNC: fail(unix.EIO, unix.ENOSPC, unix.EINTR),
	unix.SYS_FTRUNCATE: writes[:3], unix.SYS_FALLOCATE: append(fail(unix.EOPNOTSUPP), writes[:3]...),
	unix.SYS_NEWFSTATAT: fail(unix.EIO), unix.SYS_FSTAT: fail(unix.EIO), unix.SYS_STATX: fail(unix.EIO),
	unix.SYS_STATFS: fail(unix.EIO, unix.EINTR), unix.SYS_LSEEK: fail(unix.EIO), unix.SYS_FLOCK: locks,
	unix.SYS_MKDIRAT: names1, unix.SYS_UNLINKAT: fail(unix.EIO), unix.SYS_READLINKAT: fail(unix.EIO),
	unix.SYS_RENAMEAT: names1, unix.SYS_RENAMEAT2: fail(unix.EIO, unix.ENOSPC, unix.EINTR, unix.EINVAL, unix.ENOSYS),
	unix.SYS_FCHMODAT: fail(unix.EIO), unix.SYS_MMAP: fail(unix.EIO, unix.ENOMEM), unix.SYS_MEMFD_CREATE: socket,
	unix.SYS_SOCKET: socket, unix.SYS_BIND: fail(unix.EIO), unix.SYS_LISTEN: fail(unix.EIO),
	unix.SYS_ACCEPT4: append(socket, fail(unix.EINTR)...), unix.SYS_SENDMSG: talk, unix.SYS_RECVMSG: talk,
}

// ofInterest tells calls that khop makes, from those of Go's runtime.
func ofInterest(c *call) bool {
	if faults[c.nr] == nil {
		return false
	}
	object := c.object()
	c.note = object
	ours := c.nr == unix.SYS_SOCKET || c.nr == unix.SYS_MEMFD_CREATE
	return ours || object != "" && !strings.HasPrefix(object, "anon_inode:") && !strings.HasPrefix(object, "pipe:") &&
		!strings.HasPrefix(object, "/sys/kernel/mm/transparent_hugepage")
}

// subject is a command line under test.
type subject struct {
	name  string
	args  []string
	old   bool // a dataset is there before
	begin func(dir string, pid int) (end func() string)
}

var subjects = []subject{
	{name: "convert to a new dataset", args: []string{"convert", "edges.txt", "data"}},
	{name: "convert", args: []string{"convert", "edges.txt", "data", "--force"}, old: true},
	// more edges than 445 KB hold: they are sorted through a temporary file
	{name: "convert in little memory", args: []string{"convert", "many.txt", "data", "--force", "--max-memory",
		"34000000"}, old: true},
	{name: "generate", args: []string{"generate", "sbm", "data", "--nodes", "50", "--force"}, old: true},
	{name: "demo", args: []string{"demo", "data", "--nodes", "60", "--force"}, old: true},
	{name: "sample", args: []string{"sample", "data", "--jsonl", "--batch-size", "8"}, old: true},
	{name: "check", args: []string{"check", "data"}, old: true},
	{name: "serve", args: []string{"serve", "data", "--socket", "s/s", "--epochs", "1", "--batch-size", "8"}, old: true,
		begin: consume},
}

// writes reports whether the command makes a dataset.
func (s *subject) writes() bool { return s.name != "sample" && s.name != "check" && s.name != "serve" }

// consume gets all batches of a server and returns their digests.
func consume(dir string, pid int) (end func() string) {
	ctx, cancel := context.WithCancel(context.Background())
	digests := make(chan string, 1)
	go func() {
		var b strings.Builder
		err := epoch(ctx, filepath.Join(dir, "s/s"), &b)
		if err != nil {
			b.Reset()
			_ = unix.Kill(pid, unix.SIGTERM)
		}
		digests <- b.String()
	}()
	return func() string { cancel(); return <-digests }
}

// patience is how long a consumer waits for what comes at once, unless the machine is busy with something else: less
// than until a program that hangs is ended.
const patience = limit / 2

func epoch(ctx context.Context, path string, w io.Writer) error {
	for ctx.Err() == nil {
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	var c *consumer.Consumer
	var err error
	for end := time.Now().Add(patience); ; { // the socket may be there before the server listens
		c, err = consumer.Dial(ctx, path, consumer.Options{Timeout: patience})
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, shm.ErrNoServer) || time.Now().After(end) {
			return err
		}
	}
	defer c.Close()
	for b, err := range c.Epoch(ctx, 0) {
		if err != nil {
			return err
		}
		_, d := b.Digest()
		fmt.Fprintf(w, "%016x\n", d)
	}
	return ctx.Err()
}

// bench is where a subject runs again and again.
type bench struct {
	subject
	dir, data string
	template  string // the old dataset
	oldID     string
	newID     string
	output    string // without faults
	names     string // in dir, without faults
	calls     []call // without faults

	hits, crashes, reads atomic.Int64
}

func newBench(t *testing.T, s subject) *bench {
	dir := scratch(t)
	b := &bench{subject: s, dir: filepath.Join(dir, "d"), template: filepath.Join(dir, "old"), oldID: none}
	b.data = filepath.Join(b.dir, "data")
	must(t, os.Mkdir(b.dir, 0o700), os.WriteFile(filepath.Join(b.dir, "edges.txt"), []byte(edges(40)), 0o600),
		os.WriteFile(filepath.Join(b.dir, "many.txt"), []byte(strings.Repeat(edges(40), 250)), 0o600))
	_, err := program(dir, "generate", "sbm", "old", "--nodes", "40", "--seed", "9")
	must(t, err)
	if s.old {
		b.oldID, err = whole(b.template)
		must(t, err)
	}
	b.reset(t)
	var mu sync.Mutex
	r := b.run(t, hooks{enter: func(c *call) action {
		if mu.Lock(); ofInterest(c) {
			b.calls = append(b.calls, *c)
		}
		mu.Unlock()
		return action{}
	}})
	expect.Ensure(t, r.status == 0, "without faults: %+v", r)
	b.output, b.names = comparable(r.stdout), names(t, b.dir)
	b.newID, err = whole(b.data)
	must(t, err)
	return b
}

// comparable leaves out of a command's output what differs from run to run.
func comparable(s string) string {
	lines := strings.Split(s, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "{") }), "\n")
}

// reset makes the directory as it is before the command.
func (b *bench) reset(t *testing.T) {
	t.Helper()
	if id, err := whole(b.data); b.oldID != none && err == nil && id == b.oldID {
		return
	}
	must(t, os.RemoveAll(b.data), os.RemoveAll(b.data+".khop-new"))
	if b.old {
		must(t, os.CopyFS(b.data, os.DirFS(b.template)))
	}
}

// run runs the command once, with somebody who gets the batches if it is a server.
func (b *bench) run(t *testing.T, h hooks) result {
	t.Helper()
	end := func() string { return "" }
	r := trace(t, b.dir, h, func(pid int) {
		if b.begin != nil {
			end = b.begin(b.dir, pid)
		}
	}, append([]string{khop}, b.args...)...)
	if digests := end(); b.begin != nil {
		r.stdout = strings.ReplaceAll("{"+digests, "\n", ",")
		if digests == "" {
			r.stdout = b.output // the consumer has the message
		}
	}
	return r
}

// try runs the command with one fault: what becomes of call i.
func (b *bench) try(t *testing.T, i int, choose func(c *call) action) {
	t.Helper()
	b.reset(t)
	stop := func() {}
	if b.writes() && b.old {
		stop = b.keepReading(t)
	}
	n := 0
	var hit *call
	r := b.run(t, hooks{enter: func(c *call) (a action) {
		if !ofInterest(c) {
			return a
		}
		if n == i {
			if a = choose(c); a != (action{}) {
				copied := *c
				copied.act, hit = a, &copied
			}
		}
		n++
		return a
	}, once: true})
	if hit != nil {
		b.hits.Add(1)
		b.judge(t, hit, r)
	}
	if b.writes() {
		b.again(t, hit)
	}
	stop()
}

func (c *call) String() string {
	if c == nil {
		return "no call"
	}
	return fmt.Sprintf("call %d of %v: %+v", c.nr, c.note, c.act)
}

// judge says what is wrong with how a command ended after a fault.
func (b *bench) judge(t *testing.T, hit *call, r result) {
	t.Helper()
	id, err := whole(b.data)
	switch {
	case r.timedOut:
		t.Errorf("%v: it hangs: %s", hit, r.stderr)
	case err != nil:
		t.Errorf("%v: status %d, %s: the dataset is damaged: %v", hit, r.status, r.stderr, err)
	case id != b.oldID && id != b.newID:
		t.Errorf("%v: status %d, %s: the dataset is %s", hit, r.status, r.stderr, id)
	case hit.act.kill == unix.SIGKILL:
	case hit.act.kill == unix.SIGINT && b.begin != nil && r.status < 0: // who waits for it sent another signal
	case strings.Contains(r.stderr, "fatal error: "): // Go's runtime gave up
		b.crashes.Add(1)
		t.Logf("%v: %.200s", hit, r.stderr)
	case r.status < 0 || r.status > 2 && r.status != 130 || strings.Contains(r.stderr, "internal error"):
		t.Errorf("%v: status %d, %s", hit, r.status, r.stderr)
	case r.status == 0 && (id != b.newID || comparable(r.stdout) != b.output):
		t.Errorf("%v: status 0, but the dataset is %s, the output %q; %s", hit, id, r.stdout, r.stderr)
	case r.status != 0 && hit.act.kill == 0 && !b.named(hit, r.stderr):
		t.Errorf("%v: status %d without the file's name: %s", hit, r.status, r.stderr)
	}
}

// named reports whether an error names what failed.
func (b *bench) named(hit *call, stderr string) bool {
	if !strings.HasPrefix(stderr, "khop: ") && !strings.Contains(stderr, "\nkhop: ") {
		return false
	}
	object, _ := hit.note.(string)
	if !strings.HasPrefix(object, b.dir) {
		return true
	}
	if strings.HasSuffix(object, " (deleted)") { // as the system says of a file without a name
		return strings.Contains(stderr, "(temporary file)") || strings.Contains(stderr, "data")
	}
	return strings.Contains(stderr, filepath.Base(object)) || strings.Contains(stderr, "data")
}

// again runs the command without faults: it must work and leave nothing else.
func (b *bench) again(t *testing.T, hit *call) {
	t.Helper()
	if !b.old {
		if id, _ := whole(b.data); id == b.newID {
			return
		}
	}
	_, err := program(b.dir, b.args...)
	expect.Is(t, err, nil, "after %v", hit)
	if id, err := whole(b.data); err != nil || id != b.newID {
		t.Errorf("after %v: once more: %s, %v", hit, id, err)
	}
	list := names(t, b.dir)
	expect.That(t, list == b.names, "after %v: left behind: %s", hit, list)
}

// keepReading opens the dataset again and again, until stop is called.
func (b *bench) keepReading(t *testing.T) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			begin := time.Now()
			d, err := formats.Open(b.data)
			if err != nil {
				t.Errorf("a reader: %v", err)
				return
			}
			b.reads.Add(1)
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			time.Sleep(max(5*time.Millisecond, 4*time.Since(begin))) // leave the processor to the writer
		}
	})
	return func() { done.Store(true); wg.Wait() }
}

// each tries what choices gives for every call of a subject, or for a share of them.
func each(t *testing.T, few int, choices func(c *call) []action) {
	seed := uint64(1)
	if share > 0 {
		seed = uint64(time.Now().UnixNano())
	}
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, s)
			r := rand.New(rand.NewPCG(seed, 0))
			for i, c := range b.calls {
				for k := range choices(&c) {
					if !drawn(r, few) {
						continue
					}
					b.try(t, i, func(c *call) action {
						if list := choices(c); k < len(list) {
							return list[k]
						}
						return action{}
					})
				}
			}
			t.Logf("seed %d: %d calls, %d hits, %d crashes of Go's runtime, %d reads meanwhile", seed, len(b.calls),
				b.hits.Load(), b.crashes.Load(), b.reads.Load())
		})
	}
}

func TestEveryFailingSystemCallIsAnErrorAndHarmsNothing(t *testing.T) {
	each(t, 250, func(c *call) []action { return faults[c.nr] })
}

func TestACommandStoppedAtAnySystemCallHarmsNothing(t *testing.T) {
	each(t, 250, func(c *call) []action {
		if object, _ := c.note.(string); strings.HasPrefix(object, "/sys/") || strings.HasPrefix(object, "/proc/") {
			return nil // nothing has begun
		}
		return []action{{kill: unix.SIGKILL}, {kill: unix.SIGINT}}
	})
}
