package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestTheOldFileStaysWhereTheNewOneFails writes a file, then fails to replace it.
func TestTheOldFileStaysWhereTheNewOneFails(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, "state")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, failed := io.WriteString(w, s)
			return errors.Join(failed, err)
		}
	}
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(name)
		expect.That(t, err == nil && string(got) == want, "the file holds %q, %v; want %q", got, err, want)
		files, err := os.ReadDir(folder)
		expect.That(t, err == nil && len(files) == 1, "the folder holds %v, %v; want one file", files, err)
	}
	before := expect.OpenFiles(t)
	expect.OK(t, Replace(name, 0o600, text("old", nil)))
	holds("old")
	broken := errors.New("broken")
	err := Replace(name, 0o600, text("half of the n", broken))
	expect.That(t, errors.Is(err, broken), "error %v, want %v", err, broken)
	holds("old")
	expect.OK(t, Replace(name, 0o600, text("new", nil)))
	holds("new")
	expect.That(t, Replace(filepath.Join(folder, "none", "state"), 0o600, text("x", nil)) != nil,
		"a file in a folder that is not there was written")
	taken := filepath.Join(folder, "taken")
	expect.OK(t, os.MkdirAll(filepath.Join(taken, "inside"), 0o700))
	expect.That(t, Replace(taken, 0o600, text("x", nil)) != nil, "a folder was replaced")
	after := expect.OpenFiles(t)
	expect.That(t, after <= before, "%d descriptors are open, %d before", after, before)
}

// TestTheNewFileOutlivesTheMachine before it takes the old one's place, and so does its name.
func TestTheNewFileOutlivesTheMachine(t *testing.T) {
	defer func() { syncFile = (*os.File).Sync }()
	name := filepath.Join(t.TempDir(), "state")
	say := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { return expect.Err(io.WriteString(w, s)) }
	}
	expect.OK(t, Replace(name, 0o600, say("old")))
	var steps []string
	syncFile = func(f *os.File) error {
		synced := "the folder"
		if text, err := os.ReadFile(f.Name()); err == nil {
			synced = string(text)
		}
		steps = append(steps, synced+" beside "+string(expect.Must(os.ReadFile(name))(t)))
		return f.Sync()
	}
	expect.OK(t, Replace(name, 0o600, say("new")))
	expect.Same(t, steps, []string{"new beside old", "the folder beside new"}, "what was synced, and the file then")
}

// TestWhatAKilledWriterLeftIsCleared and nothing that only looks like it.
func TestWhatAKilledWriterLeftIsCleared(t *testing.T) {
	folder := t.TempDir()
	foreign := []string{".other.1.new", ".state..new", ".state.1.news", ".state.new", ".state.x.new", ".state.x1.new",
		"state"}
	for _, name := range append(foreign, ".state.17.new", ".state.4294967295.new") {
		expect.OK(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	Clear(filepath.Join(folder, "state"))
	var left []string
	for _, e := range expect.Must(os.ReadDir(folder))(t) {
		left = append(left, e.Name())
	}
	expect.Same(t, left, foreign, "what is left")
	Clear(filepath.Join(folder, "none", "state"))
}

// TestAFileMayHaveTheLongestName that the system takes.
func TestAFileMayHaveTheLongestName(t *testing.T) {
	for _, base := range []string{strings.Repeat("n", 255), strings.Repeat("ü", 127)} {
		name := filepath.Join(t.TempDir(), base)
		expect.OK(t, Replace(name, 0o600, func(io.Writer) error { return nil }))
		expect.OK(t, expect.Err(os.Stat(name)))
	}
}

// An error of the file that Replace writes beside another names that other, which is what a user has asked for.
func TestErrorsOfReplacingNameTheFileItself(t *testing.T) {
	name := filepath.Join(t.TempDir(), "plot.svg")
	for _, err := range []error{
		Replace(name, 0o600, func(io.Writer) error {
			beside := expect.Must(filepath.Glob(filepath.Join(filepath.Dir(name), ".plot.svg.*.new")))(t)
			return &fs.PathError{Op: "write", Path: beside[0], Err: syscall.ENOSPC}
		}),
		Replace(filepath.Join(name, "none"), 0o600, nil),
	} {
		expect.Ensure(t, err != nil, "no error")
		says := err.Error()
		expect.That(t, strings.Contains(says, "plot.svg") && !strings.Contains(says, ".new"), "%s", says)
	}
}
