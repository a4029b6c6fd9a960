package depot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/address"
	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/paths"
)

// Depot has files, of names with slashes.
type Depot interface {
	// Path returns what a file is called outside the depot.
	Path(name string) string
	// In returns the depot that a folder of this one is.
	In(folder string) Depot
	// Make makes the depot of small files, of which last is the last: all of them or none. fs.ErrExist where there is
	// something.
	Make(files map[string][]byte, last string) error
	// Get returns a small file. Errors of Get and Has are fs.ErrNotExist among others.
	Get(name string) ([]byte, error)
	// Open opens a file of a size that is known, for reading.
	Open(name string, size int64) (File, error)
	// Begin begins an attempt that is to write files to a folder.
	Begin(folder string) (*Attempt, error)
	// Remove removes these folders and files, what making the depot has left in its midst, and then the depot itself.
	Remove(names ...string) error
}

// File is an open file of a depot.
type File interface {
	io.Reader
	io.ReaderAt
	io.Closer
	// Ahead returns spans of the file, one after the other.
	Ahead(list []ranges.Span) ranges.Spans
}

// mostSmall is the most bytes of a small file.
const mostSmall = 64 << 20

// Attempt is a folder of this machine that becomes one of the depot.
type Attempt struct {
	Dir     string // where files are written
	first   bool   // of those that have published
	publish func(name string, text []byte) (first bool, err error)
	remove  func(first bool) error
}

// Publish has the attempt's files in the depot, and then makes a small file there, unless another attempt has made it.
// Nothing is written to the folder after that.
func (a *Attempt) Publish(name string, text []byte) (err error) {
	a.first, err = a.publish(name, text)
	return err
}

// End removes what the depot does not need: all, unless the attempt has made the small file.
func (a *Attempt) End() error { return a.remove(a.first) }

// Of returns the depot that is a folder or an address. Its context ends what is asked of a store.
func Of(ctx context.Context, name string) (Depot, error) {
	if !address.Is(name) {
		return Folder(name), nil
	}
	at, err := address.Parse(name)
	if err != nil {
		return nil, err
	}
	return &Store{ctx, newClient(), at}, nil
}

// newClient is a variable for tests only.
var newClient = ranges.New

// Cleaning names what removes the rest of tasks: CleanTasks in Go, --clean on the command line.
var Cleaning = option.Name{Option: "clean", Field: "CleanTasks"}

// Damaged is the error of a file of a depot that is not what was written.
func Damaged(path, format string, args ...any) error {
	return source.Error(path, "", -1, option.Textf("remove what the tasks have left (%s), and convert again", Cleaning),
		fmt.Errorf("%w: %s", formats.ErrCorrupt, fmt.Sprintf(format, args...)))
}

// valid refuses the name of a file that leads out of the depot: a small file may say it.
func valid(d Depot, name string) error {
	if !fs.ValidPath(name) || !filepath.IsLocal(filepath.FromSlash(name)) {
		return Damaged(d.Path(""), "a task says that it has made %q", paths.Text(name))
	}
	return nil
}

// Unique returns a name that no other attempt has.
func Unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}
