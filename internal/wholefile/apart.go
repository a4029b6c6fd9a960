package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/khop-gnn/khop/internal/paths"
)

// ErrInput is returned for a target that is an input, contains one or lies in one: writing it would harm what is read.
var ErrInput = errors.New("the target is what is read")

// Apart refuses a target that is one of the inputs, contains it or lies in it, by whatever names and links. Names that
// nothing is behind are left to who opens them. Errors: ErrInput.
func Apart(target string, inputs ...string) error {
	e, err := resolve(filepath.Clean(target))
	if err != nil {
		return nil // who writes says why
	}
	return e.apart(target, inputs)
}

// apart is Apart of a target whose links have been followed.
func (e end) apart(target string, inputs []string) error {
	if len(inputs) == 0 || e.stream() && (e.st == nil || !e.st.IsDir()) {
		return nil // a device or pipe is written to as it is
	}
	st, above := e.st, upwards(e.path)
	for _, in := range inputs {
		read, err := os.Stat(in)
		if err != nil {
			continue
		}
		how := ""
		switch {
		case st != nil && os.SameFile(st, read):
			how = "is"
		case among(read, above):
			how = "lies in"
		case st != nil && among(st, upwards(in)):
			how = "contains"
		default:
			continue
		}
		return &fs.PathError{Op: "write", Path: target, Err: fmt.Errorf("%w: it %s %s: name another", ErrInput, how,
			paths.Text(in))}
	}
	return nil
}

// upwards returns what a name stands for, where something is there, and the folders that it lies in.
func upwards(name string) (list []fs.FileInfo) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil
	}
	if end, err := filepath.EvalSymlinks(path); err == nil {
		path = end
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	for {
		if st, err := os.Stat(path); err == nil {
			list = append(list, st)
		}
		up := filepath.Dir(path)
		if up == path {
			return list
		}
		path = up
	}
}

// among reports whether a folder is one of those.
func among(st fs.FileInfo, list []fs.FileInfo) bool {
	return slices.ContainsFunc(list, func(other fs.FileInfo) bool { return os.SameFile(st, other) })
}

// OutsideDatasets refuses a target that lies in the folder of a dataset, in which nothing but its own files may be.
// Errors: ErrInput, and what the system says of a manifest that cannot be read.
func OutsideDatasets(target string) error {
	path, err := filepath.Abs(target)
	if err != nil {
		return nil // who writes says why
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		switch is, err := isDataset(dir); {
		case err != nil:
			return err
		case is:
			return fmt.Errorf("%w: it lies in the dataset %s: name another", ErrInput, paths.Text(dir))
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// isDataset reports whether a folder has a dataset's manifest, and not another program's file of that name.
func isDataset(dir string) (bool, error) {
	f, _, err := Open(filepath.Join(dir, "dataset.json"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission) ||
		errors.Is(err, ErrKind) { // a user who may not look there has read nothing of it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 512))
	return bytes.Contains(head, []byte(`"format"`)) && bytes.Contains(head, []byte(`"generation"`)), err
}
