package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestATargetIsNeverWhatIsRead: each command with an input and a target refuses one that is, contains or lies in the
// other, and changes nothing.
func TestATargetIsNeverWhatIsRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, os.Chmod(dir, 0o700), os.Mkdir(at("F"), 0o700),
		os.WriteFile(at("F/edges.csv"), []byte("src,dst\n0,1\n1,2\n"), 0o600))
	must(t, "convert", at("F"), at("D"))
	expect.OK(t, os.Symlink("D", at("L")))
	expect.OK(t, os.WriteFile(at("D/x.npy"), []byte(expect.NPY(make([]float32, 3), 3, 1)), 0o600))
	look := func() (list []string) {
		expect.OK(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Type().IsRegular() {
				text, _ := os.ReadFile(path)
				path += " " + string(text)
			}
			list = append(list, path)
			return err
		}))
		return list
	}
	before := strings.Join(look(), "\n")
	for line, how := range map[string]string{
		"convert F F/new": "lies in", "convert F F --force": "is", "convert F/edges.csv F --force": "contains",
		"convert F/edges.csv F/edges.csv": "is", "convert F/edges.csv D --force --features D/x.npy": "contains",
		"add D --column x=D/x.npy": "contains", "add L --column x=D/x.npy": "contains",
		"convert F F/new --tasks 2":               "lies in",
		"convert F/edges.csv F --force --tasks 2": "contains", "export D D --to numpy --force": "is",
		"export D D/new --to parquet": "lies in", "export D L/new --to npz": "lies in",
		"export L D/graph/new --to graphbolt": "lies in", "partition D --parts 2 --out D/new": "lies in",
		"info D --plot L/new.svg": "lies in", "plan D --batch-size 1 --fanouts 2 --plot D/new.svg": "lies in",
		"tune D --widths 4 --file D/new": "lies in", "tune D --widths 4 --file new --plot D/new.svg": "lies in",
		"train D --checkpoint D/new": "lies in", "train D --plot D/new.svg": "lies in",
		"serve D --socket s --seeds all --batch-size 1 --fanouts 2 --state D/new": "lies in",
	} {
		args := strings.Fields(line)
		for i, a := range args {
			name, file, named := strings.Cut(a, "=")
			switch {
			case named:
				args[i] = name + "=" + at(file)
			case i > 0 && (strings.ContainsAny(a[:1], "DFLST") || a == "new" || a == "s"):
				args[i] = at(a)
			}
		}
		_, said, code := khop(t, args...)
		expect.That(t, code == exitFailed && strings.Contains(said, "the target is what is read: it "+how+" "),
			"khop %s: status %d: %s; want %s", line, code, said, how)
		after := strings.Join(look(), "\n")
		expect.Ensure(t, after == before, "khop %s: something has changed:\n%s\nwas\n%s", line, after, before)
	}
}

// TestADashIsStandardOutput for every command, or refused where a file is read again. It is no file of that name.
func TestADashIsStandardOutput(t *testing.T) {
	data, dir := small(t), t.TempDir()
	expect.OK(t, os.Chmod(dir, 0o700))
	for line, code := range map[string]int{"info D --plot -": exitDone, "tune D --widths 4 --file -": exitFailed,
		"train D --epochs 1 --checkpoint -": exitFailed, "serve D --socket s --epochs 1 --state -": exitFailed} {
		args := strings.Fields(line)
		args[1] = data
		var stdout, stderr bytes.Buffer
		cmd := process(t, program(t), args...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
		_ = cmd.Run() // its status is looked at
		drawn := strings.Contains(stdout.String(), "<svg")
		refused := strings.Contains(stderr.String(), "name a file")
		expect.That(t, cmd.ProcessState.ExitCode() == code && drawn == (code == exitDone) && refused != drawn,
			"%s: status %d, %s, %s", line, cmd.ProcessState.ExitCode(), &stdout, &stderr)
		_, err := os.Lstat(filepath.Join(dir, "-"))
		expect.Is(t, err, os.ErrNotExist, line)
	}
}

// TestATargetThatExistsNamesTheOptionOfItsDoor: --force on the command line, force=True in Python.
func TestATargetThatExistsNamesTheOptionOfItsDoor(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	expect.OK(t, os.WriteFile(at("e.txt"), []byte("0 1\n1 2\n"), 0o600), os.WriteFile(at("c"), []byte("{}"), 0o600),
		os.Mkdir(at("x"), 0o700), os.WriteFile(at("x.npy"), []byte(expect.NPY(make([]float32, 3), 3)), 0o600))
	must(t, "convert", at("e.txt"), at("D"))
	must(t, "add", at("D"), "--column", "w="+at("x.npy"))
	for _, line := range [][]string{
		{"generate", "rmat", at("D"), "--nodes", "8", "--edges", "9"}, {"export", at("D"), at("x"), "--to", "numpy"},
		{"add", at("D"), "--column", "w=" + at("x.npy")}, {"convert", at("e.txt"), at("D"), "--tasks", "2"},
		{"convert", at("e.txt"), at("D")},
	} {
		_, said, code := khop(t, line...)
		expect.That(t, code == exitFailed && strings.Contains(said, "replace it (--force)"), "%v: %s", line, said)
		if line[0] != "convert" {
			continue
		}
		_, said, code = khop(t, append(line, "--config", at("c"))...)
		expect.That(t, code == exitFailed && strings.Contains(said, "replace it (force=True)"), "%v: %s", line, said)
	}
	_, _, _ = khop(t, "convert", at("e.txt"), at("E"), "--tasks", "2", "--plan")
	expect.OK(t, os.WriteFile(at("f.txt"), []byte("0 1\n1 3\n"), 0o600))
	_, said, code := khop(t, "convert", at("f.txt"), at("E"), "--tasks", "2", "--plan")
	expect.That(t, code == exitFailed && strings.Contains(said, "or remove it (--clean)"), "%d %s", code, said)
}
