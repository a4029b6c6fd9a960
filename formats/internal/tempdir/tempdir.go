package tempdir

import (
	"errors"
	"os"

	"github.com/khop-gnn/khop/internal/underway"
)

// Dir is a temporary folder, which its process holds until Remove.
type Dir struct {
	Path string
	held *os.File // nil where folders cannot be held
	left func()   // it is gone
}

// Make makes a folder whose name begins with prefix in parent; "" is the system's place for such. Before that it
// removes those of the same prefix whose processes have died. Errors are those of the system.
func Make(parent, prefix string) (*Dir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent, prefix)
	for {
		path, err := os.MkdirTemp(parent, prefix)
		if err != nil {
			return nil, err
		}
		held, err := hold(path)
		if err == nil {
			return &Dir{path, held, underway.Leaves(underway.Folder, path)}, nil
		}
		if !errors.Is(err, errTaken) { // else another process has taken it for one that nobody holds
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

// Remove removes the folder.
func (d *Dir) Remove() error {
	defer d.left()
	err := os.RemoveAll(d.Path)
	if d.held != nil {
		err = errors.Join(err, d.held.Close())
	}
	return err
}

// errTaken is of a folder that another process removes.
var errTaken = errors.New("it is being removed")
