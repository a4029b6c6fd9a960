package ahead

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/direct"
	"github.com/khop-gnn/khop/internal/expect"
)

func TestMain(m *testing.M) { expect.NoGoroutines(m) }

// TestAFileIsReadAheadFromAnyPlace reads ranges of a file by blocks, some of which the reader leaves out.
func TestAFileIsReadAheadFromAnyPlace(t *testing.T) {
	f := expect.Must(os.Create(filepath.Join(t.TempDir(), "x")))(t)
	defer f.Close()
	b := make([]byte, 100_000)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	expect.Must(f.Write(b))(t)
	for range 50 {
		first := r.Int64N(int64(len(b)))
		end := first + r.Int64N(int64(len(b))-first) + 1
		a, err := New(f, first, end, 1+r.IntN(3*direct.Align))
		if direct.Refused(err) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		expect.OK(t, err)
		for at := first; at < end && r.IntN(40) > 0; {
			got, err := a.From(at)
			expect.Ensure(t, err == nil && len(got) != 0 && bytes.Equal(got, b[at:at+int64(len(got))]),
				"byte %d of %d to %d: %d bytes, %v", at, first, end, len(got), err)
			at += 1 + r.Int64N(2*int64(len(got)))
		}
		expect.OK(t, a.Close())
	}
	a := expect.Must(New(f, 0, int64(len(b))+1, direct.Align))(t)
	defer a.Close()
	expect.Is(t, expect.Err(a.From(int64(len(b))-1)), io.ErrUnexpectedEOF, "a file that is cut short")
}
