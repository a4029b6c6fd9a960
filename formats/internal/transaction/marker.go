package transaction

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// marker is the file that says "a writer is at work here". Its writer holds a lock on it, and notes in it every file
// and directory before making it, so that the next writer clears away exactly what a dead one has left.
type marker struct {
	kind  *Kind
	dir   string
	root  *os.Root
	f     *os.File
	files []string // what the marker names, validated
	dirs  []string
	fresh bool // it was not there, or empty
}

// Marker is the marker's name in a directory that is not complete.
const Marker = ".khop-incomplete"

const (
	markerHead  = "khop is writing a dataset here, or was stopped while it did. It made:\n"
	markerFile  = "file "
	markerDir   = "dir "
	maxMarker   = 64 << 20
	claimTrials = 16
)

// claim makes the directory if need be and takes its marker's lock. ErrExist if another process has it. A directory
// that was not there at the beginning counts as made, whoever of several writers did it: the one with the lock removes
// it again.
func (k *Kind) claim(dir string) (*marker, error) {
	absent := !exists(dir)
	for range claimTrials {
		made := os.Mkdir(dir, 0o777)
		if made != nil && !errors.Is(made, fs.ErrExist) {
			return nil, k.WriteError(dir, made, 0)
		}
		m, err := k.lockMarker(dir)
		if err != nil {
			if made == nil {
				_ = os.Remove(dir) // where it fails another writer has come
			}
			return nil, err
		}
		if m == nil {
			continue // the last writer has just gone, with the marker or with the directory
		}
		return m.claimed(nil, made == nil || absent)
	}
	return nil, k.busyError(dir)
}

// claimed notes that the directory itself was made, if it was. After an error, which may be one of before, it gives the
// claim up.
func (m *marker) claimed(err error, made bool) (*marker, error) {
	if err == nil && made {
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

func (k *Kind) busyError(dir string) error {
	return k.Error(dir, "try again", fmt.Errorf("%w: other processes write here", ErrExist))
}

// lockMarker opens and locks the marker, and makes it if it is not there. It returns nil if the marker that it locked
// is no longer the directory's.
func (k *Kind) lockMarker(dir string) (*marker, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, k.Error(dir, "", err)
	}
	m := &marker{kind: k, dir: dir, root: root}
	m.f, err = root.OpenFile(Marker, os.O_RDWR|os.O_CREATE|OpenNonblock, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, root.Close()
	}
	if err != nil {
		return nil, errors.Join(k.Error(filepath.Join(dir, Marker), "", err), root.Close())
	}
	if err := lockFile(m.f); err != nil {
		err = k.Error(dir, "wait for it, or choose another target",
			fmt.Errorf("%w (%v)", ErrBusy, err))
		return nil, errors.Join(err, m.release())
	}
	mine, err1 := m.f.Stat()
	there, err2 := root.Lstat(Marker)
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		return nil, m.release()
	}
	return m, m.read()
}

// read takes in what an earlier writer noted, and begins the file where it is new.
func (m *marker) read() error {
	text, err := io.ReadAll(io.LimitReader(m.f, maxMarker))
	if err != nil {
		return m.fail(err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1] // a torn line names what its writer did not get to make
	if err := m.f.Truncate(int64(len(whole))); err != nil {
		return m.fail(err)
	}
	if len(whole) == 0 {
		return m.begin()
	}
	list, ok := strings.CutPrefix(string(whole), markerHead)
	if !ok {
		return m.fail(fmt.Errorf("%w: this marker is not khop's", ErrExist))
	}
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, markerFile); ok && m.kind.mayNameFile(name) {
			m.files = append(m.files, name)
		} else if name, ok := strings.CutPrefix(line, markerDir); ok && m.kind.mayNameDir(name) {
			m.dirs = append(m.dirs, name)
		} else {
			return m.fail(fmt.Errorf("%w: this marker names %.100q", ErrExist, line))
		}
	}
	return nil
}

// begin begins a new marker.
func (m *marker) begin() error {
	m.fresh = true
	_, err := m.f.WriteAt([]byte(markerHead), 0)
	if err == nil {
		err = syncDir(m.root, ".") // the marker must not be lost while files that it names are kept
	}
	if err != nil {
		_ = m.remove() // one that names nothing would only be in the way
	}
	return m.fail(err)
}

// temporary is the manifest's name until all else is on the disk.
func (k *Kind) temporary() string { return k.Manifest + ".tmp" }

// others are the files that may be in a directory beside those that its manifest names.
func (k *Kind) others() []string { return []string{k.Manifest, k.temporary(), Marker} }

// mayNameFile reports whether a writer makes a file of this name, in a directory or in a workspace.
func (k *Kind) mayNameFile(name string) bool {
	in, work := inWork(name)
	return name == k.temporary() || k.Makes(in) || work && slices.Contains(k.others(), in)
}

func (k *Kind) mayNameDir(name string) bool {
	in, _ := inWork(name + "/x.arrow")
	return name == "." || k.Makes(in)
}

// inWork returns a name within one of a workspace's two datasets, and whether it is in one.
func inWork(name string) (string, bool) {
	first, in, ok := strings.Cut(name, "/")
	if ok && (first == workNew || first == workOld) {
		return in, true
	}
	return name, false
}

// restart begins the marker anew, when nothing that it named is left.
func (m *marker) restart() error {
	made := m.madeDirectory()
	m.files, m.dirs = nil, nil
	text := markerHead
	if made {
		text += markerDir + ".\n"
		m.dirs = []string{"."}
	}
	err := m.f.Truncate(0)
	if err == nil {
		_, err = m.f.WriteAt([]byte(text), 0)
	}
	return m.fail(err)
}

// fail closes the marker if there is an error.
func (m *marker) fail(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(m.kind.Error(filepath.Join(m.dir, Marker), "remove the directory yourself", err), m.release())
}

// note writes that name is about to be made, and waits until that is on the disk.
func (m *marker) note(kind string, names ...string) error {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(kind + name + "\n")
		if kind == markerFile {
			m.files = append(m.files, name)
		} else {
			m.dirs = append(m.dirs, name)
		}
	}
	_, err := m.f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = m.f.WriteString(b.String())
	}
	if err == nil {
		err = m.f.Sync()
	}
	if err != nil {
		return m.kind.WriteError(filepath.Join(m.dir, Marker), err, 0)
	}
	return nil
}

// refuseForeign refuses a directory that holds anything that the marker does not name.
func (m *marker) refuseForeign() error {
	return m.kind.refuseForeign(m.root, m.dir, m.files, m.dirs)
}

// refuseForeign refuses a directory, which root has open, that holds anything but the files and directories listed.
func (k *Kind) refuseForeign(root *os.Root, dir string, files, dirs []string) error {
	ours := map[string]bool{".": true}
	for _, list := range [][]string{k.others(), files, dirsOf(files), dirs} {
		for _, name := range list {
			ours[name] = true
		}
	}
	stranger := ""
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !ours[name] || d.Type()&^fs.ModeDir != 0 {
			stranger = name
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return k.Error(dir, "", err)
	}
	if stranger != "" {
		return k.foreignError(dir, stranger)
	}
	return nil
}

// clear removes all files and directories that are noted, but not the marker and the dataset's own directory.
func (m *marker) clear() error {
	for _, name := range m.files {
		if err := m.root.Remove(filepath.FromSlash(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return m.kind.Error(filepath.Join(m.dir, name), "", err)
		}
	}
	dirs := map[string]bool{}
	for _, d := range append(dirsOf(m.files), m.dirs...) {
		dirs[d] = d != "."
	}
	for _, d := range slices.Backward(sortedKeys(dirs)) { // the inner before the outer
		if !dirs[d] {
			continue
		}
		err := m.root.Remove(filepath.FromSlash(d))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) { // that one is not empty
			return m.kind.Error(filepath.Join(m.dir, d), "", err)
		}
	}
	return nil
}

// remove removes the marker itself.
func (m *marker) remove() error {
	if closeBeforeRemove {
		_ = m.f.Close()
	}
	if err := m.root.Remove(Marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m.kind.Error(filepath.Join(m.dir, Marker), "", err)
	}
	return nil
}

// undo takes the marker away again, and the directory if a writer made it.
func (m *marker) undo() error {
	err := m.remove()
	if m.madeDirectory() {
		_ = os.Remove(m.dir) // where it fails another writer has come, and it is that one's now
	}
	return err
}

// madeDirectory reports whether a writer made the dataset's own directory.
func (m *marker) madeDirectory() bool { return slices.Contains(m.dirs, ".") }

// release gives the lock back and closes everything.
func (m *marker) release() error {
	_ = m.f.Close() // it may be closed already
	return m.root.Close()
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// dirsOf returns the directories of the given files, the outer before the inner.
func dirsOf(files []string) []string {
	dirs := map[string]bool{}
	for _, name := range files {
		for d := path.Dir(name); d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	return sortedKeys(dirs)
}
