package memuse

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestUsageAddsSharedMemoryToAnonymous(t *testing.T) {
	u, err := read(fstest.MapFS{"proc/self/status": {Data: []byte("Name:\tx\nVmHWM:\t  900 kB\n" +
		"RssAnon:\t  100 kB\nRssFile:\t  200 kB\nRssShmem:\t  30 kB\nThreads:\t5\n")}}, "self")
	want := (Usage{Anonymous: 130 << 10, File: 200 << 10, Peak: 900 << 10})
	expect.That(t, err == nil && u == want, "%+v, %v; want %+v", u, err, want)
	expect.Is(t, expect.Err(read(fstest.MapFS{}, "self")), errors.ErrUnsupported, "a system that does not tell")
}

func TestUsageSeesWhatTheProcessTakes(t *testing.T) {
	debug.FreeOSMemory() // what the heap still has of earlier tests would be taken again, unseen
	before, err := Read()
	if errors.Is(err, errors.ErrUnsupported) {
		return // nothing to see on this system; the test above covers the answer
	}
	expect.OK(t, err)
	b := make([]byte, 64<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after, _ := Read()
	grew := after.Anonymous - before.Anonymous
	expect.That(t, grew >= 48<<20, "64 MiB written, but anonymous memory grew by %d bytes", grew)
	runtime.KeepAlive(b)
}
