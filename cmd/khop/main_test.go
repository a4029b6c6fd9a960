package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

// TestMain lets the test binary stand for the program: with KHOP_TEST_AS_PROGRAM it runs its arguments as khop does.
func TestMain(m *testing.M) {
	if os.Getenv("KHOP_TEST_AS_PROGRAM") != "" {
		plant(os.Getenv("KHOP_TEST_STAGE"))
		main()
	}
	if len(os.TempDir()) > 30 {
		_ = os.Setenv("TMPDIR", "/tmp") // paths of sockets have at most 107 bytes
	}
	if invariants.Enabled { // with -race; the tests that it leaves out measure memory
		expect.ScratchInMemory()
	}
	expect.NoGoroutines(m)
}

// khop runs a command line in this process.
func khop(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return khopIn(t.Context(), args...)
}

func khopIn(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	var out, err strings.Builder
	code = run(ctx, args, &out, &err, false)
	return out.String(), err.String(), code
}

// program is what runs as khop in a process of its own: what KHOP names, which is as it is released and starts sooner,
// else this test.
func program(t *testing.T) string {
	t.Helper()
	path := cmp.Or(os.Getenv("KHOP"), os.Args[0])
	_, err := os.Stat(path) // so that go test knows a result of another program from this one's
	expect.OK(t, err)
	return path
}

// process is a program that runs until the test ends at most. Where it is this test, it stands for khop.
func process(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "KHOP_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// must runs a command line that has to succeed and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err, code := khop(t, args...)
	if code != exitDone {
		t.Fatalf("khop %s: status %d: %s", strings.Join(args, " "), code, err)
	}
	return out
}

// fails runs a command line that has to end with a status, and to say something about it.
func fails(t *testing.T, status int, says string, args ...string) {
	t.Helper()
	if _, err, code := khop(t, args...); code != status || !strings.Contains(err, says) {
		t.Errorf("khop %s: status %d, want %d, and %q in:\n%s", strings.Join(args, " "), code, status, says, err)
	}
}

// object runs a command line that prints a JSON object and nothing else.
func object(t *testing.T, args ...string) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(must(t, args...)))
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("khop %s: not one JSON object: %v", strings.Join(args, " "), err)
	}
	return v
}

// theGenerated is the files of graphs by the arguments of khop generate: each is made once for all tests.
var theGenerated = map[string]fstest.MapFS{}

// generated writes a graph, which is the test's own, to a path. The words are the kind and flags of khop generate.
func generated(t *testing.T, path, words string) {
	t.Helper()
	if theGenerated[words] == nil {
		theGenerated[words] = expect.Must(generate(words))(t)
	}
	expect.OK(t, os.CopyFS(path, theGenerated[words]))
}

func generate(words string) (fstest.MapFS, error) {
	dir, err := os.MkdirTemp("", "khop-generated-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	kind, flags, _ := strings.Cut(words, " ")
	path := filepath.Join(dir, "g.khop")
	args := append([]string{"generate", kind, path}, strings.Fields(flags)...)
	if _, text, code := khopIn(context.Background(), args...); code != exitDone {
		return nil, errors.New(text)
	}
	files := fstest.MapFS{}
	return files, fs.WalkDir(os.DirFS(path), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(path, filepath.FromSlash(name)))
		files[name] = &fstest.MapFile{Data: text, Mode: 0o600}
		return err
	})
}

// small writes a small graph, which is the test's own, and returns its path.
func small(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.khop")
	generated(t, path, "sbm --nodes 2000 --edges 20000 --features 9 --classes 4 --seed 3")
	return path
}

func TestInterruptingEndsWithStatus130AndLeavesNoDataset(t *testing.T) {
	data := small(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target := filepath.Join(t.TempDir(), "cut.khop")
	for _, args := range [][]string{{"generate", "sbm", target}, {"demo", target}, {"sample", data}, {"bench", data}} {
		_, errOut, code := khopIn(ctx, args...)
		expect.That(t, code == exitInterrupted && strings.Contains(errOut, "interrupted"), "khop %v: status %d, %q",
			args, code, errOut)
		if _, _, code := khop(t, "info", target); code == exitDone {
			t.Errorf("khop %v left a dataset", args)
		}
	}
}

// onWrite calls itself at every write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }

func TestInterruptingInTheMiddle(t *testing.T) {
	target := filepath.Join(t.TempDir(), "cut.khop")
	ctx, cancel := context.WithCancel(t.Context())
	// A terminal sees progress as soon as something is written to the dataset.
	code := run(ctx, []string{"generate", "products", target, "--nodes", "50000", "--edges",
		"500000"}, io.Discard, onWrite(cancel),
		true)
	expect.That(t, code == exitInterrupted, "status %d", code)
	if _, errOut, code := khop(t, "info", target); code != exitFailed {
		t.Errorf("it left a dataset: khop info ends with status %d, %q", code, errOut)
	}
}

// panicking is a context that panics when it is asked for anything.
type panicking struct{ context.Context }

func (panicking) Done() <-chan struct{} { panic("a bug") }
func (panicking) Err() error            { panic("a bug") }

func TestAPanicDoesNotReachTheUser(t *testing.T) {
	_, errOut, code := khopIn(panicking{t.Context()}, "demo", filepath.Join(t.TempDir(), "x.khop"))
	if code != exitFailed || !strings.Contains(errOut, "internal error: a bug") ||
		strings.Contains(errOut, "goroutine") {
		t.Errorf("status %d, %q", code, errOut)
	}
}

func TestVersion(t *testing.T) {
	v := object(t, "version", "--json")
	for _, name := range []string{"version", "go", "platform", "format", "semantics"} {
		s, _ := v[name].(string)
		expect.That(t, s != "", "no %s in %v", name, v)
	}
	if text := must(t, "version"); !strings.Contains(text, v["version"].(string)) {
		t.Error(text)
	} else if flag := must(t, "--version"); flag != text {
		t.Errorf("--version prints %q, version %q", flag, text)
	}
}

func TestDoctor(t *testing.T) {
	d := object(t, "doctor", "--json")
	for _, name := range []string{"machine", "paths", "advice", "versions"} {
		if d[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	text := must(t, "doctor", small(t))
	for _, word := range []string{"Found", "Paths", "Advice", "gather", "topology", "last-level cache"} {
		expect.That(t, strings.Contains(text, word), "no %q in:\n%s", word, text)
	}
}

func TestDemoShowsItsWork(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo.khop")
	out := must(t, "demo", dir, "--nodes", "3000")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	expect.That(t, len(lines) <= 25, "%d lines are more than a newcomer reads:\n%s", len(lines), out)
	for _, line := range lines {
		expect.That(t, len(line) <= 100 || strings.Contains(line, dir), "%d columns: %s", len(line), line)
	}
	for _, word := range []string{dir, "\nmade ", "\nchecked ", "\nloaded ", "epoch 0", "epoch 1", "batches a second",
		"expected", "taken", "\ntrained   GraphSAGE, 3 epochs", "right for 9", "(by chance: 12.5 %)", "\nNext:\n",
		" bench " + dir + "\n", " train " + dir, " convert "} {
		expect.That(t, strings.Contains(out, word), "no %q in:\n%s", word, out)
	}
	must(t, "check", dir)
}

func TestVersionPrintsTheNoticesOfOthers(t *testing.T) {
	text := must(t, "version", "--notices")
	for _, says := range []string{"github.com/klauspost/compress", "Go's standard library: BSD-3-Clause",
		"THE SOFTWARE IS PROVIDED \"AS IS\""} {
		expect.That(t, strings.Contains(text, says), "%q is missing", says)
	}
}
