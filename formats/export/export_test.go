package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/transaction"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestReplacingAnExportNeverLosesIt stops a replacement at each step.
func TestReplacingAnExportNeverLosesIt(t *testing.T) {
	for _, c := range []struct{ name, there, after string }{
		{"first", "root:new", "target:new"},
		{"replaced", "root:new target:old", "target:new"},
		{"what a killed run left", "root:new target.khop-before:old", "target:new"},
		{"two of them", "root:new target:old target.khop-before:older", "target:new"},
		{"nothing to move", "target:old", "target:old"},
		{"nothing to move after a kill", "target.khop-before:old", "target:old"},
		{"nothing to move after a kill amid moving", "target: target.khop-before:old", "target:old"},
		{"killed amid moving", "root:new target: target.khop-before:old", "target:new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range strings.Fields(c.there) {
				name, text, _ := strings.Cut(f, ":")
				expect.OK(t, os.Mkdir(filepath.Join(dir, name), 0o700))
				if text != "" {
					expect.OK(t, os.WriteFile(filepath.Join(dir, name, "a"), []byte(text), 0o600))
				}
			}
			err := transaction.Put(filepath.Join(dir, "root"), filepath.Join(dir, "target"), "a")
			expect.That(t, (err == nil) == strings.Contains(c.there, "root"), "%v", err)
			var got []string
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				text, _ := os.ReadFile(filepath.Join(dir, e.Name(), "a"))
				got = append(got, e.Name()+":"+string(text))
			}
			expect.That(t, strings.Join(got, " ") == c.after, "%v, want %s", got, c.after)
		})
	}
}

// TestAnExportIsThereAtAnyMoment replaces a folder again and again, while another goroutine reads it.
func TestAnExportIsThereAtAnyMoment(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.Mkdir(path, 0o700))
		return path
	}
	target := folder("target")
	if err := transaction.Exchange(target, folder("other")); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the system cannot exchange names in one step")
	}
	stop, missing := make(chan bool), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				missing <- n
				return
			default:
				if _, err := os.Lstat(target); err != nil {
					n++
				}
			}
		}
	}()
	for range 1000 {
		expect.OK(t, transaction.Put(folder("root"), target, ""))
	}
	close(stop)
	n := <-missing
	expect.That(t, n <= 0, "it was not there %d times", n)
}
