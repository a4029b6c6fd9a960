package direct

import (
	"os"
	"sync"

	"github.com/khop-gnn/khop/internal/machine"
)

// leastWindow is the fewest bytes that the disk is given at a time.
const leastWindow = 1 << 20

// window is how many bytes are written through the page cache before the disk is given them; 0: the system decides. A
// control group counts what the disk does not have yet, cannot give that back, and may kill for it.
var window = sync.OnceValue(func() int64 {
	limit := machine.Probe().MemoryLimit
	if limit == machine.Unlimited || limit <= 0 {
		return 0
	}
	return max(limit/32, leastWindow)
})

// pace is what the page cache has of files of this process that the disk may not have.
var pace struct {
	sync.Mutex
	bytes int64              // written since the disk was given some
	fresh map[*os.File]bound // these
	given map[*os.File]bound // those that the disk was given last
}

// bound is where bytes of a file lie.
type bound struct{ from, to int64 }

// WriteAt writes all of p to a place of a file, and waits as Wrote does.
func WriteAt(f *os.File, p []byte, at int64) (n int, err error) {
	most := window()
	if most == 0 {
		return f.WriteAt(p, at)
	}
	for n < len(p) && err == nil {
		var k int
		k, err = f.WriteAt(p[n:min(len(p), n+int(most))], at+int64(n))
		Wrote(f, at+int64(n), int64(k))
		n += k
	}
	return n, err
}

// Wrote says that n bytes were written to a place of a file, through the page cache. In a control group that limits
// memory it waits for the disk, so that of all files that are written so at most about a sixteenth of the limit is not
// there.
func Wrote(f *os.File, at, n int64) {
	most := window()
	if most == 0 {
		return
	}
	pace.Lock()
	defer pace.Unlock()
	b, ok := pace.fresh[f]
	if !ok {
		b = bound{at, at}
	}
	if pace.fresh == nil {
		pace.fresh = map[*os.File]bound{}
	}
	pace.fresh[f] = bound{min(b.from, at), max(b.to, at+n)}
	if pace.bytes += n; pace.bytes < most {
		return
	}
	for f, b := range pace.fresh {
		toDisk(f, b, false)
	}
	for f, b := range pace.given { // some may be closed
		toDisk(f, b, true)
	}
	pace.bytes, pace.given, pace.fresh = 0, pace.fresh, nil
}

// Writer writes a file from its beginning on, and waits as Wrote does.
type Writer struct {
	f  *os.File
	at int64
}

// NewWriter returns a writer of a file, which stays the caller's. The file's own place stays where it is.
func NewWriter(f *os.File) *Writer { return &Writer{f, 0} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := WriteAt(w.f, p, w.at)
	w.at += int64(n)
	return n, err
}
