package formats

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/formats/internal/origin"
	"github.com/khop-gnn/khop/internal/paths"
)

// ErrChanged is returned for a file that was changed while its dataset was open. No writer of this package does that:
// one that replaces a dataset makes new files in a new directory.
var ErrChanged = errors.New("the file has changed since the dataset was opened")

// openedFile is a file as it was when the dataset was opened.
type openedFile struct {
	path string
	info fs.FileInfo
	// being brought, bit by bit: its time is no sign
	partial bool
}

// opened notes the dataset's directory and manifest as they are now.
func (d *Dataset) opened(root *os.Root, manifest string) (err error) {
	if d.directory, err = root.Stat("."); err != nil {
		return fileError(d.dir, "", err)
	}
	path := filepath.Join(d.dir, manifest)
	st, err := root.Stat(manifest)
	if err != nil {
		return fileError(path, "", err)
	}
	d.files = append(d.files, openedFile{path: path, info: st})
	d.bytes = st.Size()
	return nil
}

// Unchanged compares size and time of all files with what they were when the dataset was opened. ErrChanged, with the
// file and what is different, if it finds a difference: the mapped bytes are then not those that were opened, or soon
// will not be. Where the whole dataset was replaced, moved or removed there is nothing to compare, and the open files
// stay as they are. It reads the attributes of each file, not the contents, so it cannot see damage by a disk: Verify
// can.
func (d *Dataset) Unchanged() error {
	for _, f := range d.files {
		if err := f.compare(); err != nil {
			if st, gone := os.Stat(d.dir); gone != nil || !os.SameFile(st, d.directory) {
				return nil
			}
			return fileError(f.path, d.Remedy()+", and open it again", err)
		}
	}
	return nil
}

func (f *openedFile) compare() error {
	st, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is not there any more", ErrChanged)
	case err != nil:
		return err
	case !os.SameFile(st, f.info):
		return fmt.Errorf("%w: another file is in its place", ErrChanged)
	case st.Size() != f.info.Size():
		return fmt.Errorf("%w: it had %s bytes and has %s", ErrChanged, humanize.Comma(f.info.Size()),
			humanize.Comma(st.Size()))
	case !f.partial && !st.ModTime().Equal(f.info.ModTime()):
		return fmt.Errorf("%w: it was last written to at %s, and now at %s", ErrChanged,
			f.info.ModTime().Format(time.RFC3339Nano), st.ModTime().Format(time.RFC3339Nano))
	}
	return nil
}

// Remedy says how to find the damage of the dataset.
func (d *Dataset) Remedy() string { return checkRemedy(d.dir) }

func checkRemedy(dir string) string {
	if at := origin.Of(dir); at != "" {
		return fmt.Sprintf(`run "khop stage %s", which brings again what is damaged in the cache`, at)
	}
	return fmt.Sprintf(`run "khop check %s"`, paths.Text(dir))
}

// withRemedy names the dataset in the remedies of errors about damage, of which there may be several in one.
func withRemedy(dir string, err error) error {
	var at *Error
	if errors.As(err, &at) && (at.Remedy == remedyConvert || at.Remedy == remedyForeign) {
		if at.Remedy = checkRemedy(dir); origin.Of(dir) == "" {
			at.Remedy += " to see what else is wrong; restore the dataset or convert again"
		}
	}
	return err
}
