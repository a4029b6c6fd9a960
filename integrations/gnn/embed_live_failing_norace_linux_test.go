//go:build !race

package gnn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestLiveIsAsBeforeWhereTheDiskFails makes each call about the journal fail in turn, while changes are made and while
// the journal becomes one record. Rows and generation stay. Where nobody knows what is on the disk, later changes are
// refused, and all is well when it is opened again.
func TestLiveIsAsBeforeWhereTheDiskFails(t *testing.T) {
	r := rand.New(rand.NewPCG(expect.Seed(t), 16))
	f := liveOfModel(t, r, modelFile(t, "sage"))
	apply := func(next *liveState, c *Changes) func() error {
		return func() error {
			err := expect.Err(f.Apply(t.Context(), c))
			if err == nil {
				f.state = next
			}
			return err
		}
	}
	refused, tried := 0, 0
	for _, errno := range []unix.Errno{unix.ENOSPC, unix.EIO} {
		for _, what := range []string{"apply", "compact"} {
			for i := 0; ; i++ {
				before, next := f.state, f.state.clone()
				c := next.changes(r)
				do := apply(next, c)
				if what == "compact" {
					next, do = before, func() error { return f.Compact(t.Context()) }
				}
				generation, err := f.Generation(), error(nil)
				all := expect.FailingCall(t, f.dir+".khop-live", i, errno, func() { err = do() })
				if i >= len(all) {
					expect.OK(t, err)
					break
				}
				tried++
				name := fmt.Sprintf("%s, call %d, %v: %v", what, i, all[i], err)
				f.same(t, name)
				if err == nil {
					continue // it was of no matter
				}
				expect.Is(t, err, errno, name)
				expect.Same(t, f.Generation(), generation, name)
				again := do()
				expect.That(t, again != nil || what != "apply" || all[i].Name != "fsync", "%s: nobody knows", name)
				if again != nil {
					refused++
					expect.Says(t, again, ErrJournal, "nobody knows", name)
					expect.OK(t, f.Close())
					f.open(t)
					if f.Generation() > generation {
						f.state = next
					}
				}
				f.same(t, name+", again")
			}
		}
	}
	expect.That(t, tried > 8 && refused > 1, "%d calls failed, and %d had later changes refused", tried, refused)
}
