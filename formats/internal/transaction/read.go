package transaction

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Read calls read with the directory open, and again where a writer has meanwhile replaced it: a directory that is open
// stays the same one, but loses its files when it was replaced. Errors: fs.ErrNotExist, and ErrIncomplete for a file.
func (k *Kind) Read(dir string, read func(root *os.Root) error) error {
	const maxTrials = 20
	for trial := 1; ; trial++ {
		root, err := k.openRoot(dir)
		missing := errors.Is(err, fs.ErrNotExist)
		if err == nil {
			if err = read(root); err != nil {
				missing = replaced(dir, root)
			}
			_ = root.Close()
		}
		if !missing || trial == maxTrials {
			return err
		}
	}
}

// replaced reports whether dir names another directory than root is.
func replaced(dir string, root *os.Root) bool {
	opened, err1 := root.Stat(".")
	there, err2 := os.Stat(dir)
	return err1 != nil || err2 != nil || !os.SameFile(opened, there)
}

// openRoot opens the directory at dir, or the place where it is set aside while it is replaced.
func (k *Kind) openRoot(dir string) (*os.Root, error) {
	root, err := k.openDirectory(dir)
	if err == nil && exists(filepath.Join(dir, k.Manifest)) || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	aside := filepath.Join(target(dir)+WorkSuffix, workOld)
	if !exists(filepath.Join(aside, k.Manifest)) {
		return root, err
	}
	if root != nil {
		_ = root.Close()
	}
	return k.openDirectory(aside)
}

func (k *Kind) openDirectory(dir string) (*os.Root, error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, k.Error(dir, "name the directory of a dataset", err)
	}
	if !st.IsDir() {
		return nil, k.Error(dir, "name the directory of a dataset, or convert this file first",
			fmt.Errorf("%w: it is not a directory", ErrIncomplete))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, k.Error(dir, "", err)
	}
	return root, nil
}
