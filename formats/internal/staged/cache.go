package staged

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/internal/origin"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// ErrRoom is returned where the cache has no room for what must be in it.
var ErrRoom = errors.New("the cache has no room")

// Cache is a folder in which entries are.
type Cache struct {
	Dir  string
	Size int64 // bytes that it may have; 0: no bound
}

// NewCache returns the cache that is meant: what is not said comes from the environment, or is a folder of the user's
// without a bound.
func NewCache(dir string, size int64) (Cache, error) {
	c := Cache{cmp.Or(dir, os.Getenv("KHOP_CACHE_DIR")), size}
	if c.Dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return c, fmt.Errorf("no folder for a cache is known: %w; name one", err)
		}
		c.Dir = filepath.Join(user, "khop", "datasets")
	}
	if text := os.Getenv("KHOP_CACHE_SIZE"); c.Size == 0 && text != "" {
		n, err := humanize.ParseBytes(text)
		if err != nil || n > 1<<62 {
			return c, fmt.Errorf("KHOP_CACHE_SIZE is %q: it must be bytes, such as 500GB", text)
		}
		c.Size = int64(n)
	}
	return c, nil
}

// File is a file of an entry: head, elements in chunks, tail.
type File struct {
	Path  string `json:"path"` // with slashes
	Bytes int64  `json:"bytes"`
	Body  int64  `json:"body"` // where the elements begin
	Size  int64  `json:"size"` // of the elements
}

// index is index.json.
type index struct {
	Source string `json:"source"` // where the dataset lies, for people
	Chunk  int64  `json:"chunk"`
	Files  []File `json:"files"`
}

// units returns how many units a file has: its head and tail are one, each chunk is one.
func (x *index) units(f *File) int { return 1 + int((f.Size+x.Chunk-1)/x.Chunk) }

// span returns where a chunk lies in its file, by the number of its unit.
func (x *index) span(f *File, unit int) (from, to int64) {
	from = f.Body + int64(unit-1)*x.Chunk
	return from, min(from+x.Chunk, f.Body+f.Size)
}

// bytes returns what a unit takes.
func (x *index) bytes(f *File, unit int) int64 {
	if unit == 0 {
		return f.Bytes - f.Size
	}
	from, to := x.span(f, unit)
	return to - from
}

// What the byte of a unit says.
const (
	absent   = 0
	reserved = 1 // its bytes are counted
	there    = 2
)

// used returns the bytes that an entry takes, as the bytes of its units say.
func (x *index) used(states []byte) (n int64) {
	at := 0
	for i := range x.Files {
		f := &x.Files[i]
		for u := range x.units(f) {
			if at < len(states) && states[at] != absent {
				n += x.bytes(f, u)
			}
			at++
		}
	}
	return n
}

// Manifest is the name of a dataset's manifest.
const Manifest = "dataset.json"

const (
	lockName   = "lock"
	statesName = "units"
	fillName   = "fill"
	unfinished = ".khop-" // begins the names of folders that are being made or removed
)

// locked calls do while no other process makes, removes or reserves anything.
func (c *Cache) locked(ctx context.Context, do func() error) error {
	l, err := lock(ctx, filepath.Join(c.Dir, lockName), false)
	if err != nil {
		return err
	}
	return errors.Join(do(), l.Close())
}

// entryOf reads what an entry says of itself.
func (c *Cache) entryOf(key string) (x index, states []byte, err error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, key, origin.Index))
	if err == nil {
		err = json.Unmarshal(text, &x)
	}
	if err != nil || x.Chunk <= 0 {
		return x, nil, cmp.Or(err, errors.New("no index"))
	}
	states, err = os.ReadFile(filepath.Join(c.Dir, key, statesName))
	return x, states, err
}

// kept is an entry as others see it.
type kept struct {
	key    string
	bytes  int64
	opened time.Time
}

// entries lists all entries, and removes what processes that were killed have left. The cache is locked.
func (c *Cache) entries() (list []kept, total int64, err error) {
	names, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range names {
		if strings.HasPrefix(e.Name(), unfinished) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.Dir, e.Name())))
			continue
		}
		x, states, e2 := c.entryOf(e.Name())
		st, e3 := os.Stat(filepath.Join(c.Dir, e.Name(), lockName))
		if e2 != nil || e3 != nil {
			continue
		}
		k := kept{e.Name(), x.used(states), st.ModTime()}
		list = append(list, k)
		total += k.bytes
	}
	slices.SortFunc(list, func(a, b kept) int { return a.opened.Compare(b.opened) })
	return list, total, err
}

// room returns how many of n more bytes the cache has room for, and removes entries that nobody has open to make it.
// The cache is locked.
func (c *Cache) room(n int64) (int64, error) {
	if c.Size == 0 {
		return n, nil
	}
	list, total, err := c.entries()
	if err != nil {
		return 0, err
	}
	for _, k := range list {
		if total+n <= c.Size {
			break
		}
		gone, err := c.remove(k.key)
		if err != nil {
			return 0, err
		}
		if gone {
			total -= k.bytes
		}
	}
	return max(0, min(n, c.Size-total)), nil
}

// remove removes an entry, unless somebody has it open. It gets another name first, so that no half of it is found.
func (c *Cache) remove(key string) (bool, error) {
	l, err := tryLock(filepath.Join(c.Dir, key, lockName))
	if err != nil {
		return false, nil
	}
	gone := filepath.Join(c.Dir, unfinished+"gone-"+key)
	err = os.Rename(filepath.Join(c.Dir, key), gone)
	if err == nil {
		err = os.RemoveAll(gone)
	}
	return err == nil, errors.Join(err, l.Close())
}

// make makes an entry in which nothing is but the manifest. The cache is locked.
func (c *Cache) make(key string, x index, text []byte) error {
	fresh := filepath.Join(c.Dir, unfinished+"new-"+key)
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	data := filepath.Join(fresh, origin.Data)
	if err := os.MkdirAll(filepath.Join(fresh, fillName), 0o700); err != nil {
		return err
	}
	units := 0
	for i := range x.Files {
		f := &x.Files[i]
		units += x.units(f)
		name := filepath.Join(data, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := hole(name, f.Bytes); err != nil {
			return err
		}
	}
	said, err := json.Marshal(x)
	if err != nil {
		return err
	}
	made := map[string][]byte{filepath.Join(fresh, lockName): nil, filepath.Join(fresh, origin.Index): said,
		filepath.Join(fresh, statesName): make([]byte, units)}
	if text != nil {
		made[filepath.Join(data, Manifest)] = text
	}
	for name, b := range made {
		if err := wholefile.New(name, 0o600, b); err != nil {
			return err
		}
	}
	return os.Rename(fresh, filepath.Join(c.Dir, key))
}

// hole makes a file of a size that takes no room.
func hole(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}
