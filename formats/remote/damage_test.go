package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// damageCache does to an entry of a cache what people and disks do, and says what.
func damageCache(t *testing.T, r *rand.Rand, entry string, files []string) string {
	t.Helper()
	name := filepath.Join(entry, "data", filepath.FromSlash(files[r.IntN(len(files))]))
	switch r.IntN(8) {
	case 0:
		expect.OK(t, os.Remove(name))
		return "removed " + name
	case 1:
		size := expect.Must(os.Stat(name))(t).Size()
		expect.OK(t, os.Truncate(name, r.Int64N(size)))
		return "cut " + name
	case 2:
		expect.OK(t, os.Remove(filepath.Join(entry, "lock")))
		return "removed the lock"
	case 3:
		folder := filepath.Join(entry, []string{"fill", "data"}[r.IntN(2)])
		expect.OK(t, os.RemoveAll(folder))
		return "removed " + folder
	case 4:
		own := filepath.Join(entry, []string{"index.json", "units"}[r.IntN(2)])
		text := expect.Must(os.ReadFile(own))(t)
		expect.OK(t, os.WriteFile(own, text[:r.IntN(len(text))], 0o600))
		return "cut " + own
	case 5:
		expect.OK(t, errors.Join(os.RemoveAll(name), os.Mkdir(name, 0o700)))
		return "a folder is at " + name
	}
	text := expect.Must(os.ReadFile(name))(t)
	at := r.IntN(len(text))
	text[at] ^= 1 << r.IntN(8)
	expect.OK(t, os.WriteFile(name, text, 0o600))
	return fmt.Sprintf("a bit of byte %d of %s", at, name)
}

// A damaged cache heals when its dataset is staged, and by itself where the damage is seen; else the error of verifying
// says what to run. KHOP_DRAWS says how many are damaged.
func TestADamagedCacheHealsOrIsNamed(t *testing.T) {
	s, address, files := store(t)
	r := rand.New(rand.NewPCG(expect.Seed(t), 5))
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	healed, named := 0, 0
	for range expect.Draws(t, expect.DayOrNight(12, 48)) {
		e := Options{CacheDir: t.TempDir(), Verify: r.IntN(2) == 0}
		d := expect.Must(Open(context.Background(), address, e))(t)
		dir := d.Path()
		expect.OK(t, d.Close())
		what := damageCache(t, r, filepath.Dir(dir), names)
		s.Fail(nil)
		d, err := Open(context.Background(), address, e)
		if err == nil {
			report := expect.Must(formats.Check(context.Background(), dir, formats.CheckOptions{}))(t)
			err = errors.Join(report.Problems...)
			expect.OK(t, d.Close())
		}
		switch {
		case err == nil:
			sameFiles(t, files, dir)
			healed++
		case !e.Verify && strings.Contains(err.Error(), `run "khop stage `+address+`"`):
			e.Verify = true
			expect.OK(t, expect.Must(Open(context.Background(), address, e))(t).Close())
			sameFiles(t, files, dir)
			named++
		default:
			t.Errorf("%s: %v", what, err)
		}
		_, sent := s.Requests()
		expect.That(t, sent <= bytesOf(files)+2*int64(len(files["dataset.json"])), "%s: %d bytes were sent", what, sent)
		expect.OK(t, os.RemoveAll(e.CacheDir))
	}
	t.Logf("%d healed, %d named", healed, named)
	expect.That(t, healed > 0 && named > 0, "%d healed, %d named", healed, named)
}
