package transaction

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// What went wrong, for errors.Is.
var (
	ErrExist      = errors.New("target exists") // a target that must not be replaced, or another writer
	ErrBusy       = fmt.Errorf("%w: another process is writing it", ErrExist)
	ErrSpace      = errors.New("not enough disk space") // for what is to be written
	ErrIncomplete = errors.New("incomplete dataset")    // a directory without a manifest
)

// Kind is what transactions have to know of the directories that they write.
type Kind struct {
	Manifest string                 // the file that makes a directory complete
	Makes    func(name string) bool // whether such a directory may have a file of this name, with slashes
	// Inspect reads the manifest of the directory that root has open: its generation, and all files that it names.
	Inspect func(dir string, root *os.Root) (generation int64, files []string, err error)
	// Verify opens the directory that root has open as a reader does, by the manifest of that name.
	Verify func(dir string, root *os.Root, manifest string) error
	// Error says where something is wrong, and what to do about it.
	Error func(path, remedy string, err error) error
	// Exchange and Link are those of this package and os, but in tests of systems that have none.
	Exchange, Link func(a, b string) error
}

// Options say what Begin may do.
type Options struct {
	Replace bool  // take the place of a complete directory
	Extend  bool  // of one that must be there
	Expect  int64 // bytes that will be written, checked against the free space; 0 is not known
}

// Tx writes one directory. End it by Commit, or by Abort, which does nothing after Commit.
type Tx struct {
	Dir        string // that is written; links are followed
	Generation int64  // of the new directory: 1, or one more than that which it replaces

	in        string // where in the marker's directory it is written: "", or "new/" of a workspace
	mark      *marker
	expect    int64
	paths     map[string]bool // made so far, within the marker's directory
	done      bool            // committed or aborted
	left      func()          // nothing of it is left
	unsettled bool            // names were exchanged, and the disk may not have that
}

// Begin claims dir, whose parent must exist. It is locked against other writers until Commit or Abort, in this process
// and others.
//
// Errors: ErrExist if there is something that must not be replaced, or another writer is at work; ErrSpace if there is
// less room than expected; fs.ErrNotExist if there is nothing to extend; wholefile.ErrInput within another dataset;
// else what the system says.
func (k *Kind) Begin(dir string, opt Options) (*Tx, error) {
	dir = target(dir)
	if err := k.leaveWork(dir); err != nil {
		return nil, err
	}
	if opt.Extend {
		if _, err := os.Stat(filepath.Join(dir, k.Manifest)); err != nil {
			return nil, k.Error(dir, "", err)
		}
		return k.replacement(dir, opt)
	}
	for range claimTrials {
		complete, err := k.lookFirst(dir)
		if err != nil {
			return nil, err
		}
		if complete && !opt.Replace {
			remedy := option.Textf("choose another target, or replace it (%s)", option.On("Force"))
			return nil, k.Error(dir, remedy.Error(),
				option.With(fmt.Errorf("%w: it is a complete dataset", ErrExist), remedy))
		}
		if complete {
			return k.replacement(dir, opt)
		}
		if err := wholefile.OutsideDatasets(dir); err != nil {
			return nil, k.Error(dir, "", err)
		}
		t, err := k.inPlace(dir, opt)
		if t != nil || err != nil {
			return t, err
		}
	}
	return nil, k.busyError(dir)
}

func newTx(dir, in string, generation int64, mark *marker, opt Options) *Tx {
	return &Tx{Dir: dir, Generation: generation, in: in, mark: mark, expect: opt.Expect, paths: make(map[string]bool),
		left: underway.Leaves(underway.Dataset, dir)}
}

// inPlace begins a directory where none is complete. It returns nil if another writer has meanwhile completed one.
func (k *Kind) inPlace(dir string, opt Options) (*Tx, error) {
	if err := k.checkSpace(filepath.Dir(dir), opt.Expect, 0); err != nil && !exists(dir) {
		return nil, err // before the directory is made
	}
	mark, err := k.claim(dir)
	if err != nil {
		return nil, err
	}
	if _, err := mark.root.Lstat(k.Manifest); err == nil {
		if mark.fresh {
			_ = mark.remove()
		}
		return nil, mark.release()
	}
	t := newTx(dir, "", 1, mark, opt)
	if err := t.makeRoom(); err != nil {
		if mark.fresh { // leave the directory as it was
			err = errors.Join(err, mark.undo())
		}
		return nil, errors.Join(err, t.Leave())
	}
	return t, nil
}

func exists(dir string) bool { _, err := os.Lstat(dir); return err == nil }

// lookFirst refuses what can be seen to be wrong before anything is made. It reports whether a complete directory is
// there.
func (k *Kind) lookFirst(dir string) (complete bool, err error) {
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, k.Error(dir, "", err)
	}
	if !st.IsDir() {
		return false, k.Error(dir, "choose another target", fmt.Errorf("%w and is not a directory", ErrExist))
	}
	if exists(filepath.Join(dir, k.Manifest)) {
		return true, nil
	}
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // another writer has just given up
	}
	if err != nil {
		return false, k.Error(dir, "", err)
	}
	if !slices.ContainsFunc(list, func(e fs.DirEntry) bool { return e.Name() == Marker }) && len(list) > 0 {
		return false, k.foreignError(dir, list[0].Name())
	}
	return false, nil
}

func (k *Kind) foreignError(dir, name string) error {
	return k.Error(dir, "choose another target, or remove the directory yourself",
		fmt.Errorf("%w: it holds %q, which no khop dataset has", ErrExist, name))
}

// makeRoom removes what a writer that died has left, and nothing else.
func (t *Tx) makeRoom() error {
	m := t.mark
	if err := m.refuseForeign(); err != nil {
		return err
	}
	left := int64(0)
	for _, name := range m.files {
		if st, err := m.root.Lstat(filepath.FromSlash(name)); err == nil {
			left += st.Size()
		}
	}
	if err := m.kind.checkSpace(t.Dir, t.expect, left); err != nil {
		return err
	}
	if err := m.clear(); err != nil {
		return err
	}
	return m.restart()
}

// checkSpace compares the bytes needed with those free. freed bytes will be free before they are needed.
func (k *Kind) checkSpace(dir string, need, freed int64) error {
	if need <= 0 {
		return nil
	}
	free, err := FreeSpace(dir)
	if err != nil || need <= free+freed {
		return nil // an unknown amount is found out by writing
	}
	return k.Error(dir, "make room, or choose another disk", fmt.Errorf("%w: %s are needed, %s are free", ErrSpace,
		counted(need), counted(free+freed)))
}

// counted spells a number of bytes, exactly and as people read it.
func counted(n int64) string {
	return fmt.Sprintf("%s bytes (%s)", humanize.Comma(n), humanize.IBytes(uint64(n)))
}

// WriteError explains an error of writing a file. need is how many bytes were still to be written, 0 if that is not
// known.
func (k *Kind) WriteError(path string, err error, need int64) error {
	if !isNoSpace(err) {
		return k.Error(path, "", err)
	}
	dir, what := filepath.Dir(path), "the disk is full"
	if !exists(dir) {
		dir = "."
	}
	if free, e := FreeSpace(dir); e == nil {
		what = counted(free) + " are free"
	}
	if need > 0 {
		what = counted(need) + " more are needed for this file alone, " + what
	}
	return k.Error(path, "make room, or choose another disk", fmt.Errorf("%w: %s: %w", ErrSpace, what, err))
}
