package expect

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOneCallFailsAndNoOther: the third write of a file fails, and nothing that another thread does.
func TestOneCallFailsAndNoOther(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) (failed []int) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return nil
		}
		defer f.Close()
		for i := range 4 {
			if _, err := f.WriteString("x"); errors.Is(err, unix.ENOSPC) {
				failed = append(failed, i)
			} else if err != nil {
				t.Error(err)
			}
		}
		return failed
	}
	var failed, others []int
	calls := FailingCall(t, dir, -1, nil, func() { failed = write("a") })
	path := filepath.Join(dir, "a")
	want := []Call{{"openat", path}, {"write", path}, {"write", path}, {"write", path}, {"write", path}}
	if !slices.Equal(calls, want) || failed != nil {
		t.Errorf("%v, %v", calls, failed)
	}
	if !slices.Equal(FailingCall(t, dir, 3, unix.ENOSPC, func() {
		done := make(chan bool)
		go func() { others = write("b"); close(done) }()
		<-done
		failed = write("a")
	}), want[:4]) || !slices.Equal(failed, []int{2}) || others != nil {
		t.Errorf("failed: %v, and %v of another", failed, others)
	}
}
