//go:build !race

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// writing are commands that write a file whose name follows their last word.
var writing = []struct{ name, args string }{
	{"info --plot", "info D --plot"},
	{"plan --plot", "plan D --batch-size 100 --fanouts 2 --plot"},
	{"tune --plot", "tune D --widths 4,8 --rounds 1 --file T --plot"},
	{"tune --file", "tune D --widths 4,8 --rounds 1 --file"},
	{"train --plot", "train D --epochs 1 --plot"},
	{"train --checkpoint", "train D --epochs 1 --checkpoint"},
	{"partition --out", "partition D --parts 2 --out"},
	{"export --to npz", "export D --to npz"},
	{"export --to numpy", "export D --to numpy"},
	{"serve --state", "serve D --socket S --state"},
}

// targets are what may lie where a command is to write.
var targets = []struct {
	name string
	make func(t *testing.T, path, own string)
	keep bool // it is no file of the command, which must not change it
}{
	{"nothing", nil, false},
	{"own file", func(t *testing.T, path, own string) {
		if st, err := os.Stat(own); err == nil && st.IsDir() {
			expect.OK(t, os.CopyFS(path, os.DirFS(own)))
		} else {
			expect.OK(t, os.WriteFile(path, expect.Must(os.ReadFile(own))(t), 0o644))
		}
	}, false},
	{"foreign file", func(t *testing.T, path, _ string) { notes(t, path, 0o666) }, true},
	{"read-only file", func(t *testing.T, path, _ string) { notes(t, path, 0o444) }, true},
	{"link", func(t *testing.T, path, _ string) {
		notes(t, path+".at", 0o666)
		expect.OK(t, os.Symlink(filepath.Base(path)+".at", path))
	}, true},
	{"dangling link", func(t *testing.T, path, _ string) {
		expect.OK(t, os.Symlink(filepath.Base(path)+".at", path))
	}, false},
	{"pipe", func(t *testing.T, path, _ string) {
		expect.OK(t, unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666))
	}, false},
	{"device", func(t *testing.T, path, _ string) { node(t, path) }, false},
	{"link to a device", func(t *testing.T, path, _ string) {
		node(t, path+".at")
		expect.OK(t, os.Symlink(filepath.Base(path)+".at", path))
	}, false},
	{"folder", func(t *testing.T, path, _ string) {
		expect.OK(t, os.Mkdir(path, 0o777))
		notes(t, filepath.Join(path, "notes"), 0o666)
	}, true},
	{"no folder for it", nil, false},
	{"full disk", nil, false},
}

func notes(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte("notes of somebody"), mode))
}

// node makes a device like /dev/null.
func node(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Skip("no devices can be made here: ", err)
	}
	expect.OK(t, os.Chmod(path, 0o666))
}

// writeTry runs a command that writes to a place, and says in a word what came of it. It fails where something is lost.
type writeTry struct {
	dir, data, own string
	uid            uint32
	args           string
}

// TestCommandsWriteWhereTheyAreTold writes with each command to all that a name may stand for. The golden file is the
// table of docs/results/faults.md, "What is in the way".
func TestCommandsWriteWhereTheyAreTold(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes devices, file systems and processes of others")
	}
	data := small(t)
	expect.OK(t, os.Chmod(filepath.Dir(data), 0o755), os.Chmod(filepath.Dir(filepath.Dir(data)), 0o755))
	text, err := exec.Command("chmod", "-R", "a+rX", data).CombinedOutput()
	expect.Ensure(t, err == nil, "%s", text)
	var table strings.Builder
	fmt.Fprintf(&table, "| what is there |")
	for _, w := range writing {
		fmt.Fprintf(&table, " `%s` |", w.name)
	}
	table.WriteString("\n|---|" + strings.Repeat("---|", len(writing)) + "\n")
	cells := make([][]string, len(targets))
	for _, w := range writing {
		for i := range targets {
			cells[i] = append(cells[i], tryAll(t, data, w.args, i))
		}
	}
	for i, row := range cells {
		fmt.Fprintf(&table, "| %s | %s |\n", targets[i].name, strings.Join(row, " | "))
	}
	expect.Golden(t, "testdata/outputs.md", table.String())
}

// tryAll runs a command on a target as root and as another user. The words are one where both agree.
func tryAll(t *testing.T, data, args string, target int) string {
	t.Helper()
	var words []string
	for _, uid := range []uint32{0, 65534} {
		dir := t.TempDir()
		expect.OK(t, os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, int(uid), int(uid)))
		o := writeTry{dir: dir, data: data, own: filepath.Join(dir, "own"), uid: uid, args: args}
		words = append(words, o.of(t, target))
	}
	if words[0] == words[1] {
		return words[0]
	}
	return words[0] + "; as a user " + words[1]
}

func (o writeTry) of(t *testing.T, target int) string {
	t.Helper()
	w, path := targets[target], filepath.Join(o.dir, "place", "out")
	expect.OK(t, os.Mkdir(filepath.Dir(path), 0o755))
	switch w.name {
	case "own file":
		code, said := o.run(t, o.own)
		expect.Ensure(t, code == 0, "khop %s: %s", o.args, said)
	case "no folder for it":
		path = filepath.Join(o.dir, "none", "out")
	case "full disk":
		expect.OK(t, unix.Mount("none", filepath.Dir(path), "tmpfs", 0, "size=8k"))
		defer func() { expect.OK(t, unix.Unmount(filepath.Dir(path), 0)) }()
		expect.OK(t, os.WriteFile(filepath.Join(filepath.Dir(path), "fills"), make([]byte, 8192), 0o600))
	}
	if w.make != nil {
		w.make(t, path, o.own)
	}
	expect.OK(t, exec.Command("chown", "-hR", fmt.Sprint(o.uid), filepath.Join(o.dir, "place")).Run())
	before := o.look(path)
	if st, err := os.Stat(path); err == nil && st.Mode()&os.ModeNamedPipe != 0 {
		drain(t, path)
	}
	code, said := o.run(t, path)
	after := o.look(path)
	says := fmt.Sprintf("khop %s, on %s, as %d: status %d; before %q, after %q: %s", o.args, w.name, o.uid, code,
		before, after, said)
	kind := func(look string) string { return strings.Split(look, " ")[0] }
	expect.That(t, code == 0 || after == before, "changed in spite of an error: %s", says)
	expect.That(t, !w.keep || after == before, "lost: %s", says)
	expect.That(t, before == "" || kind(after) == kind(before), "another kind: %s", says)
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	expect.That(t, len(left) == 0, "%q left: %s", left, says)
	switch {
	case code != 0:
		return "refused"
	case after == before && w.name != "own file":
		return "written to"
	}
	return "written"
}

// drain reads a pipe until its writers have gone.
func drain(t *testing.T, path string) {
	r := expect.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { r.Close() })
	go func() {
		b := make([]byte, 1<<16)
		for {
			if _, err := r.Read(b); err != nil {
				return
			}
		}
	}()
}

// look describes what lies at a path, and what a link there leads to.
func (o writeTry) look(path string) (text string) {
	for _, p := range []string{path, path + ".at"} {
		st, err := os.Lstat(p)
		if err != nil {
			continue
		}
		text += st.Mode().Type().String()
		switch {
		case st.Mode().IsRegular():
			b, _ := os.ReadFile(p)
			text += fmt.Sprintf(" %d bytes %.20q", len(b), b)
		case st.IsDir():
			names, _ := filepath.Glob(filepath.Join(p, "*"))
			text += fmt.Sprintf(" %d files", len(names))
		}
		text += "; "
	}
	return text
}

// run runs the command, until it has taken its place where it serves. It returns its status, and what it said.
func (o writeTry) run(t *testing.T, path string) (code int, said string) {
	t.Helper()
	args := strings.Fields(o.args + " " + path)
	for i := range args {
		args[i] = cmp.Or(map[string]string{"D": o.data, "T": filepath.Join(o.dir, "tuned"),
			"S": filepath.Join(o.dir, "s", "socket")}[args[i]], args[i])
	}
	if args[0] == "export" { // whose target is its second argument
		args = []string{args[0], args[1], path, args[2], args[3]}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), "KHOP_TEST_AS_PROGRAM=1", "GORACE=atexit_sleep_ms=0", "HOME="+o.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: o.uid, Gid: o.uid}}
	var errs strings.Builder
	cmd.Stderr = &errs
	out := expect.Must(cmd.StdoutPipe())(t)
	expect.OK(t, cmd.Start())
	if n, _ := out.Read(make([]byte, 1)); args[0] == "serve" && n > 0 {
		expect.OK(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait()
		return 0, ""
	}
	_ = cmd.Wait()
	expect.That(t, ctx.Err() == nil, "khop %q hangs", args)
	return cmd.ProcessState.ExitCode(), errs.String()
}
