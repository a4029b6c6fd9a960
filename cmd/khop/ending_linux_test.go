package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// endingCase says how a command comes to be in each state. T is the dataset that it may write, D one that it reads, I
// is a pipe that somebody has open and writes nothing to, P is one that nobody reads. What begins with "-" says why a
// command is never in that state.
type endingCase struct {
	line              string // "" where the state's own counts alone
	read, sort, write string // stages
	store, pipe       string // lines
	first             string // a line before
	stays             string // what an interruption leaves, so that the command can go on: documented
	silent            string // why nobody can wait for who reads standard output
	made              string // the dataset that it replaces before it reads
}

const (
	atOnce   = "-it ends at once"
	unsorted = "-it sorts nothing"
	unread   = "-it reads little, at once"
	unlisted = "-its output is small, and beside the old one for a moment"
	local    = "-its dataset is a folder"
	regular  = "-its files are regular ones"
)

// endings has each command.
var endings = map[string]endingCase{
	"demo": {made: "T", line: "demo T --force", read: "batches", sort: unsorted, write: "write", store: local,
		pipe: regular},
	"doctor": {line: "doctor", read: unread, sort: unsorted, write: "-it writes nothing", store: local,
		pipe: regular},
	"docs": {line: "docs convert", read: atOnce, sort: atOnce, write: atOnce, store: atOnce, pipe: atOnce},
	"generate": {line: "generate sbm T --nodes 20000 --force", read: unread, sort: unsorted, write: "write",
		store: local, pipe: regular},
	"convert": {line: "convert e.txt T --force", read: "read", sort: "sort", write: "write",
		store: "convert URL T --force", pipe: "convert e.txt T --force --config I"},
	"convert --tasks": {line: "convert e.txt N --tasks 2", read: "read", sort: "sort", write: "write",
		store: "convert e.txt BUCKET --tasks 2", pipe: regular},
	"task": {first: "convert e.txt N --tasks 2 --plan", line: "task TASKS", read: "read", sort: "sort", write: "write",
		store: "task BUCKET.khop-tasks/tasks/read-0.json", pipe: regular, stays: "N.khop-tasks"},
	"add": {line: "add T --column w=x.npy --force", read: unread, sort: unsorted, write: "write",
		store: "add BUCKET --column w=x.npy", pipe: regular},
	"split": {line: "split T --train 0.5 --val 0.25 --force", read: unread, sort: unsorted, write: "write",
		store: local, pipe: regular},
	"partition": {line: "partition D --parts 4 --out parts.npy --force", read: "partition", sort: unsorted,
		write: unlisted, store: "partition URL --parts 4 --out parts.npy", pipe: "partition D --parts 4 --out P"},
	"export": {line: "export D X --to numpy --force", read: unread, sort: unsorted, write: "export",
		store: "export URL X --to numpy --force", pipe: "export D P --to npz"},
	"stage": {read: unread, sort: unsorted, write: "-it writes what comes", store: "stage URL", pipe: regular},
	"info": {line: "info D --deep", read: "inspect", sort: unsorted, write: unlisted, store: "info URL",
		pipe: "info D --plot P"},
	"check": {line: "check D", read: "check", sort: unsorted, write: "-it writes nothing", store: "check URL",
		pipe: regular},
	"sample": {line: "sample D --digest", read: "batches", sort: unsorted, write: "-it writes nothing",
		store: "sample URL", pipe: "-it refuses pipes, for it reads lists more than once"},
	"samplers": {line: "samplers", read: atOnce, sort: atOnce, write: atOnce, store: atOnce, pipe: atOnce},
	"bench": {line: "bench D --batches 3 --no-memcpy", read: "epoch 0", sort: unsorted, write: "-it writes nothing",
		store: "bench URL", pipe: "bench D --batches 10 --trace P"},
	"plan": {line: "plan D --batch-size 10 --fanouts 2", read: "sampling", sort: unsorted, write: unlisted,
		store: "plan URL --batch-size 10 --fanouts 2", pipe: "plan D --batch-size 10 --fanouts 2 --plot P"},
	"serve": {line: "serve D --socket S/socket", read: "slots", sort: unsorted, write: unlisted,
		store: "serve URL --socket S/socket", pipe: "serve D --socket S/socket --config I"},
	"train": {line: "train D --epochs 1000 --checkpoint new", read: "epoch 2", sort: unsorted, write: unlisted,
		store: "train URL", pipe: "train D --model sage --fanouts 5,5 --batch-size 100 --trace P", stays: "new",
		silent: "its line comes at its end, which an interruption brings"},
	"embed": {line: "embed T --checkpoint m --out h", read: "layer 1", sort: unsorted, write: "verify",
		store: local, pipe: "embed T --checkpoint m --out P.npy",
		stays: "T.khop-embed"},
	"tune": {line: "tune D --widths 4 --file tuned", read: "tuning", sort: unsorted, write: unlisted,
		store: "tune URL --widths 4 --file tuned", pipe: "tune D --widths 4 --file tuned --plot P", stays: "tuned"},
	"report": {line: "report r.html run.json", read: atOnce, sort: atOnce, write: atOnce, store: atOnce,
		pipe: "report P run.json", silent: atOnce},
	"trace": {line: "trace merge t.json t0.json", read: atOnce, sort: atOnce, write: atOnce, store: atOnce,
		pipe: "trace merge P t0.json", silent: atOnce},
	"options":    {line: "options --json", read: atOnce, sort: atOnce, write: atOnce, store: atOnce, pipe: atOnce},
	"version":    {line: "version", read: atOnce, sort: atOnce, write: atOnce, store: atOnce, pipe: atOnce},
	"completion": {line: "completion bash", read: atOnce, sort: atOnce, write: atOnce, store: atOnce, pipe: atOnce},
}

// endingCell is a command in a state.
type endingCell struct {
	endingCase
	command, state, stage, how string
	signal                     syscall.Signal
}

func (c endingCell) String() string { return fmt.Sprintf("%s, %s, %v", c.command, c.state, c.signal) }

// endingCells are all that can be.
func endingCells() (all []endingCell) {
	add := func(c endingCell) {
		for _, c.signal = range []syscall.Signal{unix.SIGINT, unix.SIGTERM} {
			all = append(all, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(endings)) {
		c := endings[name]
		for state, stage := range map[string]string{"reading": c.read, "sorting": c.sort, "writing": c.write} {
			if !strings.HasPrefix(stage, "-") {
				add(endingCell{c, name, state, stage, "wait", 0})
				add(endingCell{c, name, "looping while " + state, stage, "loop", 0})
			}
		}
		if c.line != "" && c.silent == "" && !strings.HasPrefix(c.line, "serve") {
			add(endingCell{c, name, "waiting for who reads its output", "", "", 0})
		}
		for state, line := range map[string]string{"waiting for a store": c.store, "waiting for a pipe": c.pipe} {
			if !strings.HasPrefix(line, "-") {
				of := c
				of.line = line
				add(endingCell{of, name, state, "*", "waits", 0})
			}
		}
	}
	slices.SortFunc(all, func(a, b endingCell) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// TestEveryCommandEndsWhereverItIs interrupts commands in drawn states: they end, leave nothing unfinished, and keep
// the old dataset. KHOP_DRAWS says how many are drawn; 1000 are all.
func TestEveryCommandEndsWhereverItIs(t *testing.T) {
	for _, name := range commandNames(t) {
		c, ok := endings[name]
		for _, how := range []string{c.read, c.sort, c.write, c.store, c.pipe} {
			ok = ok && how != ""
		}
		expect.That(t, ok, "%s: add it to the table, with the reason for each state that it is never in", name)
	}
	r := rand.New(rand.NewPCG(expect.Seed(t), 1))
	all := endingCells()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(len(all), expect.Draws(t, 10))]
	template := endingTemplate(t)
	address := deafStore(t)
	var mu sync.Mutex
	var took []time.Duration
	t.Run("cells", func(t *testing.T) {
		for _, c := range all {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				d := c.run(t, template, address)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
				t.Logf("%v", d)
			})
		}
	})
	slices.Sort(took)
	if len(took) > 0 {
		t.Logf("%d cells: half end within %v, the slowest within %v", len(took), took[len(took)/2], took[len(took)-1])
	}
}

// endingTemplate makes a folder of what commands read.
func endingTemplate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var edges strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&edges, "%d %d\n", i, (i*7919+1)%20_000)
	}
	expect.OK(t, os.WriteFile(at("e.txt"), []byte(edges.String()), 0o600),
		os.WriteFile(at("x.npy"), []byte(expect.NPY(make([]float32, 3000), 3000)), 0o600))
	must(t, "generate", "sbm", at("D"), "--nodes", "3000")
	must(t, "generate", "sbm", at("T"), "--nodes", "3000")
	must(t, "export", at("D"), at("X"), "--to", "numpy")
	must(t, "train", at("T"), "--epochs", "1", "--checkpoint", at("m"))
	must(t, "bench", at("D"), "--batches", "3", "--no-memcpy", "--trace", at("t0.json"))
	run := must(t, "bench", at("D"), "--batches", "3", "--no-memcpy", "--json")
	expect.OK(t, os.WriteFile(at("run.json"), []byte(run), 0o600))
	return dir
}

// deafStore is a server that answers nothing.
func deafStore(t *testing.T) (address string) {
	t.Helper()
	l := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	return l.Addr().String()
}

// tree has what is in a folder, and what files hold, but for what a command may leave.
func tree(t *testing.T, dir, but string) map[string]string {
	t.Helper()
	all := map[string]string{}
	expect.OK(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if but != "" && (name == but || strings.HasPrefix(name, but+"/")) {
			return nil
		}
		all[name] = ""
		if d.Type().IsRegular() {
			all[name] = string(expect.Must(os.ReadFile(path))(t))
		}
		return nil
	}))
	return all
}

// place is a folder in which a command runs, and one beside it for all else.
type place struct {
	t          *testing.T
	dir, other string
	address    string
}

func (p *place) at(name string) string { return filepath.Join(p.dir, name) }

// said is the file that says that the command is in the state.
func (p *place) said() string { return filepath.Join(p.other, "said") }

// newPlace copies the template, and makes the pipes.
func newPlace(t *testing.T, template, address string) *place {
	t.Helper()
	p := &place{t, t.TempDir(), t.TempDir(), address}
	expect.OK(t, os.Chmod(p.dir, 0o700), os.CopyFS(p.dir, os.DirFS(template)), os.Mkdir(p.at("tmp"), 0o700))
	for _, name := range []string{"I", "P", "P.npy"} {
		expect.OK(t, unix.Mkfifo(p.at(name), 0o600))
	}
	open := expect.Must(os.OpenFile(p.at("I"), os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = open.Close() })
	return p
}

// command is a line that runs there.
func (p *place) command(line, stage string) *exec.Cmd {
	p.t.Helper()
	names := strings.NewReplacer("URL", "http://"+p.address+"/x", "BUCKET", "s3://bucket/x")
	args := strings.Fields(names.Replace(line))
	if slices.Contains(args, "TASKS") {
		args = args[:len(args)-1]
		for _, of := range []string{"read-*", "nodes-*", "range-*", "commit-*"} {
			args = append(args, expect.Must(filepath.Glob(p.at("N.khop-tasks/tasks/"+of)))(p.t)...)
		}
	}
	cmd := process(p.t, os.Args[0], args...)
	cmd.Dir = p.dir
	cmd.Env = append(cmd.Env, "KHOP_TEST_STAGE="+stage, "HOME="+p.other, "TMPDIR="+p.at("tmp"),
		"KHOP_CACHE_DIR="+filepath.Join(p.other, "cache"), "AWS_ENDPOINT_URL=http://"+p.address, "AWS_REGION=x",
		"AWS_ACCESS_KEY_ID=x", "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
	return cmd
}

// run interrupts the command in its state, and returns how long it took to end.
func (c endingCell) run(t *testing.T, template, address string) (took time.Duration) {
	p := newPlace(t, template, address)
	if c.first != "" {
		expect.OK(t, p.command(c.first, "").Run())
	}
	but := c.stays
	if c.how != "loop" || c.stage != "write" {
		but += c.made
	}
	before := tree(t, p.dir, but)
	var stderr bytes.Buffer
	cmd := p.command(c.line, strings.Join([]string{c.stage, c.how, p.said()}, "|"))
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer r.Close()
	if c.how == "" {
		fillPipe(t, w)
	}
	cmd.Stdout, cmd.Stderr = w, &stderr
	expect.OK(t, cmd.Start(), w.Close())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.await(p, cmd, ended, &stderr)
	begin := time.Now()
	expect.OK(t, cmd.Process.Signal(c.signal))
	select {
	case <-ended:
		took = time.Since(begin)
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatalf("it does not end")
	}
	interrupted := strings.Contains(stderr.String(), "khop: interrupted")
	code := cmd.ProcessState.ExitCode()
	if code == exitDone && c.how == "wait" && !interrupted { // it was about to end
		must(t, "check", p.at("T"))
		return took
	}
	expect.That(t, code == exitInterrupted && interrupted, "%v, %s", cmd.ProcessState, &stderr)
	c.compare(t, before, tree(t, p.dir, but), &stderr)
	return took
}

// await waits until the command is in the state.
func (c endingCell) await(p *place, cmd *exec.Cmd, ended <-chan error, stderr *bytes.Buffer) {
	p.t.Helper()
	late := time.After(time.Minute)
	for still := ""; !c.isThere(cmd.Process.Pid, p.said(), &still); {
		select {
		case err := <-ended:
			p.t.Fatalf("it ended before it was in that state: %v, %s", err, stderr)
		case <-late:
			_ = cmd.Process.Kill()
			p.t.Fatalf("it is never in that state")
		case <-time.After(2 * time.Millisecond): // to look again
		}
	}
}

// compare sees that nothing is left, and nothing gone.
func (c endingCell) compare(t *testing.T, before, after map[string]string, stderr *bytes.Buffer) {
	t.Helper()
	for name := range after {
		was, ok := before[name]
		if c.how == "" { // all is done, and what it has made is there
			ok, was = ok || !strings.Contains(name, ".khop-") && !strings.HasPrefix(name, "tmp/"), after[name]
		}
		expect.That(t, ok && was == after[name], "%s is left, or changed; %s", name, stderr)
	}
	for name := range before {
		_, ok := after[name]
		expect.That(t, ok || c.how == "", "%s is gone", name)
	}
}

// fillPipe fills a pipe.
func fillPipe(t *testing.T, w *os.File) {
	t.Helper()
	expect.Must(w.Write(make([]byte, expect.Must(unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0))(t))))(t)
}

// isThere reports whether the command is in the state. That it waits for who reads its output is likely where it has
// used no processor for a while; still has what it had used before.
func (c endingCell) isThere(pid int, said string, still *string) bool {
	if c.how != "" {
		_, err := os.Stat(said)
		return err == nil
	}
	<-time.After(300 * time.Millisecond) // a while
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 15 { // it has ended
		return false
	}
	was := *still
	*still = strings.Join(fields[13:15], " ")
	return *still == was
}

// A command that loops ends with its parent, too, and leaves nothing; and with a second signal, whatever it waits for.
func TestACommandThatLoopsEndsWithItsParentOrASecondSignal(t *testing.T) {
	template, address := endingTemplate(t), deafStore(t)
	for name, how := range map[string]func(parent *os.Process, child int){
		"parent": func(parent *os.Process, _ int) { expect.OK(t, parent.Kill()) },
		"second signal": func(_ *os.Process, child int) {
			expect.OK(t, syscall.Kill(child, unix.SIGTERM), syscall.Kill(child, unix.SIGTERM))
		},
	} {
		p := newPlace(t, template, address)
		before := tree(t, p.dir, "")
		cmd := p.command("", "sort|loop|"+p.said())
		cmd.Args = []string{"sh", "-c", `"$0" convert e.txt T --force --parent $$ & echo $!; read nothing`, os.Args[0]}
		cmd.Path = "/bin/sh"
		in := expect.Must(cmd.StdinPipe())(t)
		defer in.Close()
		out := expect.Must(cmd.StdoutPipe())(t) // its child has it too: it ends with both
		expect.OK(t, cmd.Start())
		lines := bufio.NewReader(out)
		child := expect.Must(strconv.Atoi(strings.TrimSpace(expect.Must(lines.ReadString('\n'))(t))))(t)
		late := time.AfterFunc(time.Minute, func() { _ = syscall.Kill(child, unix.SIGKILL) })
		for {
			if _, err := os.Stat(p.said()); err == nil {
				break
			}
			<-time.After(2 * time.Millisecond) // to look again
		}
		how(cmd.Process, child)
		_ = in.Close()
		expect.Must(io.ReadAll(lines))(t)
		_ = cmd.Wait()
		expect.That(t, late.Stop(), "%s: it does not end", name)
		endingCell{how: "loop"}.compare(t, before, tree(t, p.dir, ""), &bytes.Buffer{})
	}
}
