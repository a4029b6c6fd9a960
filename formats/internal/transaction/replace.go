package transaction

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// WorkSuffix is what the name of a directory's workspace ends in.
const WorkSuffix = ".khop-new"

// The two directories of a workspace.
const (
	workNew = "new"
	workOld = "old"
)

// target returns the directory that dir names, with links followed: it is replaced where it lies.
func target(dir string) string {
	dir = filepath.Clean(dir)
	if base := filepath.Base(dir); base == "." || base == ".." { // it has a name elsewhere
		if wd, err := filepath.Abs("."); err == nil {
			if wd, err = filepath.EvalSymlinks(wd); err == nil && !filepath.IsAbs(dir) {
				dir = filepath.Join(wd, dir)
			}
		}
	}
	const maxLinks = 40
	for range maxLinks {
		link, err := os.Readlink(dir)
		if err != nil {
			break
		}
		if !filepath.IsAbs(link) {
			parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
			if err != nil {
				break
			}
			link = filepath.Join(parent, link)
		}
		dir = link
	}
	return dir
}

// replacement begins a directory that takes the place of the complete one at dir.
func (k *Kind) replacement(dir string, opt Options) (*Tx, error) {
	generation, _, err := k.replaceable(dir)
	if err != nil {
		return nil, err
	}
	if isMountPoint(dir) {
		return nil, k.Error(dir, "write to a directory below or beside it, or remove the dataset yourself first",
			fmt.Errorf("%w, and a file system is mounted here: the dataset cannot be replaced in one step", ErrExist))
	}
	if err := k.checkSpace(dir, opt.Expect, 0); err != nil {
		return nil, err
	}
	mark, err := k.claimWork(dir)
	if err != nil {
		return nil, err
	}
	return newTx(dir, workNew+"/", generation+1, mark, opt), nil
}

// replaceable inspects the complete directory at dir, and refuses one that holds anything else.
func (k *Kind) replaceable(dir string) (generation int64, files []string, err error) {
	root, err := k.openDirectory(dir)
	if err != nil {
		return 0, nil, err
	}
	defer root.Close()
	generation, files, err = k.Inspect(dir, root)
	if err != nil {
		return 0, nil, k.Error(dir, "remove the directory yourself",
			fmt.Errorf("%w, and what belongs to it is unknown: %w", ErrExist, err))
	}
	return generation, files, k.refuseForeign(root, dir, files, nil)
}

// claimWork makes the workspace of the dataset at dir, or takes over one whose writer died, and leaves it empty. A
// dataset that was set aside there is put back.
func (k *Kind) claimWork(dir string) (*marker, error) {
	m, err := k.claim(dir + WorkSuffix)
	if err != nil {
		return nil, err
	}
	err = m.tidy(dir)
	return m.claimed(err, !m.madeDirectory()) // its writer may have died before it could say that it made it
}

// tidy removes what a writer that died has left in the workspace of the dataset at dir.
func (m *marker) tidy(dir string) error {
	if exists(filepath.Join(m.dir, m.kind.Manifest)) { // a dataset of that name
		return m.kind.foreignError(m.dir, m.kind.Manifest)
	}
	_, err := m.root.Lstat(workOld + "/" + m.kind.Manifest)
	if err == nil && !exists(filepath.Join(dir, m.kind.Manifest)) {
		if err := m.putBack(dir); err != nil {
			return m.kind.Error(dir, "", err)
		}
	}
	if err := m.refuseForeign(); err != nil {
		return err
	}
	if m.fresh {
		return nil
	}
	if err := m.settle(); err != nil {
		return err
	}
	if err := m.clear(); err != nil {
		return err
	}
	return m.restart()
}

// putBack gives the dataset that was set aside its name again. Where it was copied for that, files of it may be left
// there, which go first.
func (m *marker) putBack(dir string) error {
	var left []string
	for _, name := range m.files {
		if in, ok := strings.CutPrefix(name, workOld+"/"); ok {
			left = append(left, in)
		}
	}
	names := append(append([]string{"."}, dirsOf(left)...), left...) // the inner last
	for _, name := range slices.Backward(names) {
		err := os.Remove(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(filepath.Join(m.dir, workOld), dir)
}

// settle waits until the disk has the names of the datasets within and beside the workspace as they are. Until then
// nothing in it may be removed: after a loss of power it could be what the dataset's name stands for.
func (m *marker) settle() error {
	if err := cmp.Or(syncDir(m.root, "."), syncParent(m.dir)); err != nil {
		return m.kind.Error(m.dir, "", err)
	}
	return nil
}

// leaveWork removes the workspace that a writer of the dataset at dir has left when it died, if there is one.
func (k *Kind) leaveWork(dir string) error {
	if !exists(filepath.Join(dir+WorkSuffix, Marker)) {
		return nil
	}
	m, err := k.claimWork(dir)
	if err != nil {
		return err
	}
	return errors.Join(m.undo(), m.release())
}

// takePlace gives the new directory, which is complete and on the disk, the name of the old one, and waits until the
// disk has that. On an error the old one has its name again.
func (t *Tx) takePlace() error {
	k := t.mark.kind
	fresh, aside := filepath.Join(t.mark.dir, workNew), filepath.Join(t.mark.dir, workOld)
	forth := func() error { return trade(k.Exchange, t.Dir, fresh, aside, k.Manifest) }
	back := forth
	if exists(t.Dir) {
		_, old, err := k.replaceable(t.Dir)
		if err != nil {
			return err
		}
		var names []string
		for _, name := range append(k.others(), old...) {
			names = append(names, workNew+"/"+name, workOld+"/"+name)
		}
		if err := t.mark.note(markerFile, names...); err != nil {
			return err
		}
	} else { // somebody has removed it meanwhile
		forth = func() error { return os.Rename(fresh, t.Dir) }
		back = func() error { return os.Rename(t.Dir, fresh) }
	}
	t.unsettled = true
	if err := forth(); err != nil {
		return k.Error(t.Dir, "the old dataset is as it was: choose another target", err)
	}
	if err := t.mark.settle(); err != nil {
		return errors.Join(err, back())
	}
	t.unsettled = false
	return nil
}

// trade gives two directories each other's name. Where the system cannot do it in one step, three renames do it, and a
// is at aside after the first one; see carry for last. On an error all is as it was.
func trade(inOneStep func(a, b string) error, a, b, aside, last string) error {
	if err := inOneStep(a, b); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	steps := [][2]string{{a, aside}, {b, a}, {aside, b}}
	for i, s := range steps {
		err := os.Rename(s[0], s[1])
		if i == 0 && errors.Is(err, syscall.EXDEV) {
			err = carry(a, aside, last)
		}
		if err != nil {
			for _, done := range slices.Backward(steps[:i]) {
				err = errors.Join(err, os.Rename(done[1], done[0]))
			}
			return err
		}
	}
	return nil
}

// carry gives a directory another name by copying it: one of a lower layer of an overlay cannot be renamed. The file
// last, without which it is not complete, is copied last and removed first, so that one of the two is complete at any
// moment. On an error before that the copy is removed.
func carry(from, to, last string) error {
	if err := copyDirectory(from, to, last); err != nil {
		return errors.Join(err, os.RemoveAll(to))
	}
	if last != "" {
		root, err := os.OpenRoot(from)
		if err != nil {
			return err
		}
		err = errors.Join(root.Remove(last), syncDir(root, "."), root.Close())
		if err != nil {
			return err
		}
	}
	return os.RemoveAll(from)
}

// copyDirectory copies files and folders, the file last at the end, and waits until they are on the disk.
func copyDirectory(from, to, last string) error {
	dirs := []string{}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		switch {
		case err != nil || name == last:
			return err
		case d.IsDir():
			dirs = append(dirs, name)
			return os.Mkdir(filepath.Join(to, name), 0o777)
		}
		return copyFile(path, filepath.Join(to, name))
	})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range dirs {
		err = cmp.Or(err, syncDir(root, name))
	}
	if err == nil && last != "" {
		err = copyFile(filepath.Join(from, last), filepath.Join(to, last))
		err = cmp.Or(err, syncDir(root, "."))
	}
	return cmp.Or(err, syncParent(to))
}

// Put gives a file or directory that is whole the name target. What is there exchanges names with it, and is then
// removed. Where the system cannot do that in one step it stays beside it until then, so that it is never lost: what a
// run has left there that was killed in between is all there is, unless target is a file, or a directory with the file
// last.
func Put(fresh, target, last string) error {
	before := Before(target)
	stale := before
	st, err := os.Lstat(target)
	if exists(before) && (err != nil || st.IsDir() && !exists(filepath.Join(target, last))) {
		stale = target
	}
	if err = os.RemoveAll(stale); err != nil {
		return err
	}
	err = trade(Exchange, target, fresh, before, last)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Rename(fresh, target); err != nil {
			if e := os.Rename(before, target); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(fresh), os.RemoveAll(before))
}

// Before is where Put may leave what it replaces, if it is killed.
func Before(target string) string { return target + ".khop-before" }
