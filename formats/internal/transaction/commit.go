package transaction

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/khop-gnn/khop/internal/direct"
)

var errEnded = errors.New("the writer has ended")

// Path returns where a file of the new directory is written.
func (t *Tx) Path(name string) string {
	return filepath.Join(t.mark.dir, filepath.FromSlash(t.in+name))
}

// Create notes a file in the marker and makes it, and the directories that it is in. The caller syncs and closes it.
func (t *Tx) Create(name string) (*os.File, error) {
	if t.done {
		return nil, t.mark.kind.Error(t.Dir, "", errEnded)
	}
	if err := t.note(name); err != nil {
		return nil, err
	}
	f, err := t.mark.root.OpenFile(filepath.FromSlash(t.in+name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, t.mark.kind.WriteError(t.Path(name), err, 0)
	}
	t.paths[t.in+name] = true
	return f, nil
}

// Has reports whether the new directory has a file of that name.
func (t *Tx) Has(name string) bool { return t.paths[t.in+name] }

// Keep takes over a file, of this number of bytes, of the directory that is replaced: it gets a second name, or where
// the file system has none, is copied.
func (t *Tx) Keep(name string, bytes int64) error {
	if err := t.note(name); err != nil {
		return err
	}
	k := t.mark.kind
	from, to := filepath.Join(t.Dir, filepath.FromSlash(name)), t.Path(name)
	err := k.Link(from, to)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = copyFile(from, to)
	} else {
		bytes = 0
	}
	if err != nil {
		return k.WriteError(to, err, bytes)
	}
	t.paths[t.in+name] = true
	return nil
}

// copyFile copies a file, and waits until it is on the disk.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(direct.NewWriter(out), in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// note makes the directories that a file is in, and notes the file.
func (t *Tx) note(name string) error {
	name = t.in + name
	for i, c := range name {
		if dir := name[:i]; c == '/' && !t.paths[dir] {
			if err := t.mark.note(markerDir, dir); err != nil {
				return err
			}
			if err := t.mark.root.Mkdir(filepath.FromSlash(dir), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return t.mark.kind.WriteError(filepath.Join(t.mark.dir, filepath.FromSlash(name)), err, 0)
			}
			t.paths[dir] = true
		}
	}
	return t.mark.note(markerFile, name)
}

// Abort removes all that was written, and the directory if Begin has made it. A directory that was complete stays.
// Abort does nothing after Commit, and nothing the second time. All files must be closed.
func (t *Tx) Abort() error {
	if t.done {
		return nil
	}
	t.done = true
	return errors.Join(t.remove(), t.Leave())
}

// Leave gives the claim up and leaves all that was written for the next Begin to clear away, as a process does that is
// killed.
func (t *Tx) Leave() error {
	t.left()
	return t.mark.release()
}

// remove removes what was written.
func (t *Tx) remove() error {
	if t.unsettled {
		if err := t.mark.settle(); err != nil {
			return err // the next writer removes it
		}
	}
	// A Commit that failed at the very end may have named the manifest already. It goes first: without it nothing is
	// complete.
	if err := t.mark.root.Remove(t.in + t.mark.kind.Manifest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := t.mark.clear(); err != nil {
		return err
	}
	return t.mark.undo()
}

// Commit writes the manifest, waits until all is on the disk, and opens the directory as a reader does. Only then does
// the manifest get its name, by which the directory is complete. Where the new directory replaces another one, it then
// takes its place, and the old one is removed. On an error nothing is committed, and the caller calls Abort.
func (t *Tx) Commit(manifest []byte) error {
	if t.done {
		return t.mark.kind.Error(t.Dir, "", errEnded)
	}
	if err := t.publish(manifest); err != nil {
		return err
	}
	if t.in != "" {
		if err := t.takePlace(); err != nil {
			return err
		}
	}
	t.done = true
	// The directory is complete from here on: remains of the marker, or of the old one, do no harm.
	if t.in == "" {
		_ = t.mark.remove()
	} else if t.mark.clear() == nil {
		_ = t.mark.undo()
	}
	_ = t.Leave()
	return nil
}

// publish writes the manifest under another name, makes everything durable, opens it, and renames the manifest.
func (t *Tx) publish(text []byte) error {
	k, root := t.mark.kind, t.mark.root
	if t.in != "" { // in a workspace every file is named; elsewhere the manifest says that the directory is complete
		if err := t.mark.note(markerFile, t.in+k.Manifest); err != nil {
			return err
		}
	}
	f, err := t.Create(k.temporary())
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = cmp.Or(err, f.Sync())
	err = cmp.Or(err, f.Close())
	for _, d := range append(dirsOf(sortedKeys(t.paths)), ".") {
		err = cmp.Or(err, syncDir(root, filepath.FromSlash(d)))
	}
	if t.mark.madeDirectory() {
		err = cmp.Or(err, syncParent(t.mark.dir))
	}
	if err != nil {
		return k.WriteError(t.Path(k.Manifest), err, int64(len(text)))
	}
	err = t.verify()
	if err == nil {
		err = os.Rename(t.Path(k.temporary()), t.Path(k.Manifest))
	}
	err = cmp.Or(err, syncDir(root, filepath.Join(".", filepath.FromSlash(t.in))))
	if err != nil {
		return k.WriteError(t.Path(k.Manifest), err, int64(len(text)))
	}
	return nil
}

// verify sees that what was written can be opened, before anything stands for it.
func (t *Tx) verify() error {
	root, err := t.mark.root.OpenRoot(filepath.Join(".", filepath.FromSlash(t.in)))
	if err != nil {
		return err
	}
	return errors.Join(t.mark.kind.Verify(t.Path(""), root, t.mark.kind.temporary()), root.Close())
}

// syncParent makes the name of a directory durable, where this user may read the directory that holds it.
func syncParent(dir string) error {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(syncDir(root, "."), root.Close())
}
