//go:build unix

package formats

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRoomIsComparedToTheByte: what is needed with what is free and what will be.
func TestRoomIsComparedToTheByte(t *testing.T) {
	dir := scratchDir(t)
	free, err := FreeSpace(dir)
	must(t, err)
	var st syscall.Statfs_t
	must(t, syscall.Statfs(dir, &st))
	if now := int64(st.Bavail) * int64(st.Bsize); free < now/2 || free > 2*now {
		t.Errorf("%d bytes are free, not %d", free, now)
	}
	const far = 1 << 60
	for _, c := range []struct {
		need, freed int64
		want        bool
	}{{0, 0, true}, {-1, -far, true}, {far, far, true}, {far, far - 1<<59, false}, {1, -far, false}, {1, 0, true}} {
		if err := checkSpace(dir, c.need, c.freed); (err == nil) != c.want || err != nil && !errors.Is(err, ErrSpace) {
			t.Errorf("%d are needed, %d become free: %v", c.need, c.freed, err)
		}
	}
	if err := checkSpace(filepath.Join(dir, "none"), far, 0); err != nil {
		t.Errorf("what is free is not known: %v", err)
	}
	err = checkSpace(dir, far, -free)
	if want := ": not enough disk space: 1,152,921,504,606,846,976 bytes (1.0 EiB) are needed, "; err == nil ||
		!strings.HasPrefix(err.Error(), dir+want) || !strings.HasSuffix(err.Error(),
		" are free; make room, or choose another disk") {
		t.Errorf("%v", err)
	}
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		err := writeError(filepath.Join(dir, "x"), full, 0)
		if !errors.Is(err, ErrSpace) || !strings.HasPrefix(err.Error(), dir+"/x: not enough disk space: ") ||
			strings.Contains(err.Error(), "for this file alone") || writeError("y", err, 1) != err {
			t.Errorf("%v", err)
		}
	}
	if err := writeError("x", syscall.EIO, 5); err.Error() != "x: input/output error" || writeError("x", nil,
		1) != nil {
		t.Errorf("%v", err)
	}
}
