package formats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// A complete dataset is replaced by one that is written whole beside it. <name>.khop-new is the workspace: a directory
// with a marker, whose lock keeps other writers away and which names all that is in it. The new dataset is written to
// new/ there. When it is on the disk, it and the old one exchange names in one step; the old one is then in the
// workspace, and goes with it. Where the system cannot exchange, the old one is in old/ for a moment: a reader that
// finds no dataset looks there, and the next writer puts it back.
const (
	workSuffix = ".khop-new"
	workNew    = "new"
	workOld    = "old"
)

// target returns the directory that dir names, with links followed: a dataset is replaced where it lies.
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

// replacement begins a dataset that takes the place of the complete one at dir.
func replacement(dir string, opt WriterOptions) (*Writer, error) {
	old, err := replaceable(dir)
	if err != nil {
		return nil, err
	}
	if isMountPoint(dir) {
		return nil, fileError(dir, "write to a directory below or beside it, or remove the dataset yourself first",
			fmt.Errorf("%w, and a file system is mounted here: the dataset cannot be replaced in one step", ErrExist))
	}
	if err := checkSpace(dir, opt.ExpectBytes, 0); err != nil {
		return nil, err
	}
	mark, err := claimWork(dir)
	if err != nil {
		return nil, err
	}
	return newWriter(dir, workNew+"/", old.Generation+1, mark, opt), nil
}

// replaceable reads the manifest of the complete dataset at dir, and refuses a directory that holds anything else.
func replaceable(dir string) (*Manifest, error) {
	root, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	m, err := readManifest(dir, root)
	if err != nil {
		return nil, fileError(dir, "remove the directory yourself",
			fmt.Errorf("%w, and what belongs to it is unknown: %w", ErrExist, err))
	}
	stranger, err := foreign(root, dir, datasetFiles(m), nil)
	if err == nil && stranger != "" {
		err = foreignError(dir, stranger)
	}
	return m, err
}

// datasetFiles lists all files that may be in the directory of a dataset, the manifest first.
func datasetFiles(m *Manifest) []string {
	list := slices.Clone(notArrays)
	for _, p := range m.parts() {
		list = append(list, p.Path)
	}
	return list
}

// claimWork makes the workspace of the dataset at dir, or takes over one whose writer died, and leaves it empty. A
// dataset that was set aside there is put back.
func claimWork(dir string) (*marker, error) {
	m, err := claim(dir + workSuffix)
	if err != nil {
		return nil, err
	}
	if err = m.tidy(dir); err == nil && !m.madeDirectory() { // its writer died before it could say that it made it
		err = m.note(markerDir, ".")
	}
	if err != nil {
		if m.fresh {
			_ = m.undo() // leave the directory as it was
		}
		return nil, errors.Join(err, m.release())
	}
	return m, nil
}

// tidy removes what a writer that died has left in the workspace of the dataset at dir.
func (m *marker) tidy(dir string) error {
	if exists(filepath.Join(m.dir, manifestName)) { // a dataset of that name
		return foreignError(m.dir, manifestName)
	}
	if _, err := m.root.Lstat(workOld + "/" + manifestName); err == nil && !exists(dir) {
		if err := os.Rename(filepath.Join(m.dir, workOld), dir); err != nil {
			return fileError(dir, "", err)
		}
	}
	stranger, err := foreign(m.root, m.dir, m.files, m.dirs)
	if err != nil {
		return err
	}
	if stranger != "" {
		return foreignError(m.dir, stranger)
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

// settle waits until the disk has the names of the datasets within and beside the workspace as they are. Until then
// nothing in it may be removed: after a loss of power it could be what the dataset's name stands for.
func (m *marker) settle() error {
	if err := cmp.Or(syncDir(m.root, "."), syncParent(m.dir)); err != nil {
		return fileError(m.dir, "", err)
	}
	return nil
}

// leaveWork removes the workspace that a writer of the dataset at dir has left when it died, if there is one.
func leaveWork(dir string) error {
	if !exists(filepath.Join(dir+workSuffix, markerName)) {
		return nil
	}
	m, err := claimWork(dir)
	if err != nil {
		return err
	}
	return errors.Join(m.undo(), m.release())
}

// openRoot opens the directory of the dataset at dir, or the place where it is set aside while it is replaced.
func openRoot(dir string) (*os.Root, error) {
	root, err := openDirectory(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	if aside, e := openDirectory(filepath.Join(target(dir)+workSuffix, workOld)); e == nil {
		return aside, nil
	}
	return nil, err
}

// takePlace gives the new dataset, which is complete and on the disk, the name of the old one, and waits until the disk
// has that. On an error the old one has its name again.
func (w *Writer) takePlace() error {
	fresh, aside := filepath.Join(w.mark.dir, workNew), filepath.Join(w.mark.dir, workOld)
	forth := func() error { return trade(w.dir, fresh, aside) }
	back := forth
	if exists(w.dir) {
		old, err := replaceable(w.dir)
		if err != nil {
			return err
		}
		var names []string
		for _, name := range datasetFiles(old) {
			names = append(names, workNew+"/"+name, workOld+"/"+name)
		}
		if err := w.mark.note(markerFile, names...); err != nil {
			return err
		}
	} else { // somebody has removed it meanwhile
		forth = func() error { return os.Rename(fresh, w.dir) }
		back = func() error { return os.Rename(w.dir, fresh) }
	}
	w.unsettled = true
	if err := forth(); err != nil {
		return fileError(w.dir, "the old dataset is as it was: choose another target", err)
	}
	if err := w.mark.settle(); err != nil {
		return errors.Join(err, back())
	}
	w.unsettled = false
	return nil
}

// inOneStep is a variable so that tests can do without it.
var inOneStep = Exchange

// trade gives two directories each other's name. Where the system cannot do it in one step, three renames do it, and a
// is at aside after the first one. On an error all is as it was.
func trade(a, b, aside string) error {
	if err := inOneStep(a, b); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	steps := [][2]string{{a, aside}, {b, a}, {aside, b}}
	for i, s := range steps {
		if err := os.Rename(s[0], s[1]); err != nil {
			for _, done := range slices.Backward(steps[:i]) {
				err = errors.Join(err, os.Rename(done[1], done[0]))
			}
			return err
		}
	}
	return nil
}

// settled calls read with the dataset's directory open, and again where a writer has meanwhile replaced the dataset: a
// directory that is open stays the same dataset, but loses its files when it was replaced.
func settled(dir string, read func(root *os.Root) error) error {
	const maxTrials = 20
	for trial := 1; ; trial++ {
		root, err := openRoot(dir)
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
