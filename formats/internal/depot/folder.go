package depot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/ranges"
	"github.com/khop-gnn/khop/internal/underway"
	"github.com/khop-gnn/khop/internal/wholefile"
)

// Folder is a depot in a folder. The zero value means no depot.
type Folder string

// Path implements Depot.
func (f Folder) Path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

// In implements Depot.
func (f Folder) In(folder string) Depot { return Folder(f.Path(folder)) }

// Make implements Depot: the folder gets its name when all is in it.
func (f Folder) Make(files map[string][]byte, _ string) (err error) {
	if _, err := os.Lstat(string(f)); err == nil {
		return &fs.PathError{Op: "make", Path: string(f), Err: fs.ErrExist}
	}
	draft := Folder(string(f) + "." + Unique())
	if err := os.Mkdir(string(draft), 0o755); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(string(draft)))
		}
	}()
	for name, text := range files {
		path := draft.Path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := wholefile.New(path, 0o644, text); err != nil {
			return err
		}
	}
	return os.Rename(string(draft), string(f))
}

// Get implements Depot.
func (f Folder) Get(name string) ([]byte, error) { return wholefile.Read(f.Path(name), mostSmall) }

// folderFile is a file of a folder.
type folderFile struct{ *os.File }

// Open implements Depot.
func (f Folder) Open(name string, size int64) (File, error) {
	if err := valid(f, name); err != nil {
		return nil, err
	}
	in, err := os.Open(f.Path(name))
	if err != nil {
		return nil, err
	}
	st, err := in.Stat()
	if err == nil && st.Size() != size {
		err = Damaged(in.Name(), "it has %d bytes, and had %d", st.Size(), size)
	}
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	return folderFile{in}, nil
}

// Ahead implements File.
func (f folderFile) Ahead(list []ranges.Span) ranges.Spans { return &folderSpans{f.File, list, nil} }

// folderSpans are read when they are asked for: the system reads ahead.
type folderSpans struct {
	file *os.File
	left []ranges.Span
	buf  []byte
}

// Next implements ranges.Spans.
func (s *folderSpans) Next() ([]byte, error) {
	if len(s.left) == 0 {
		return nil, io.EOF
	}
	n := s.left[0].Bytes
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, n)
	}
	_, err := s.file.ReadAt(s.buf[:n], s.left[0].At)
	s.left = s.left[1:]
	return s.buf[:n], err
}

// Close implements ranges.Spans.
func (s *folderSpans) Close() {}

// Begin implements Depot: the attempt's folder is that of the depot.
func (f Folder) Begin(folder string) (*Attempt, error) {
	dir := f.Path(folder)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	left := underway.Leaves(underway.Folder, dir)
	return &Attempt{
		Dir: dir,
		publish: func(name string, text []byte) (bool, error) {
			left() // from here on others may need it
			return f.link(dir, name, text)
		},
		remove: func(first bool) error {
			defer left()
			if first {
				return nil
			}
			return os.RemoveAll(dir)
		},
	}, nil
}

// link makes a small file that is whole at once, unless there is one.
func (f Folder) link(dir, name string, text []byte) (first bool, err error) {
	draft, path := filepath.Join(dir, strings.ReplaceAll(name, "/", "-")), f.Path(name)
	err = errors.Join(wholefile.SyncFolder(dir), os.MkdirAll(filepath.Dir(path), 0o755))
	if err == nil {
		err = wholefile.New(draft, 0o644, text)
	}
	if err != nil {
		return false, err
	}
	err = os.Link(draft, path)
	if err != nil && !errors.Is(err, fs.ErrExist) { // there are folders without links
		err = os.Rename(draft, path)
	}
	if errors.Is(err, fs.ErrExist) {
		is, err := f.Get(name)
		return bytes.Equal(is, text), err // a network's answer to ours may have been lost
	}
	return err == nil, errors.Join(err, wholefile.SyncFolder(filepath.Dir(path)))
}

// Remove implements Depot.
func (f Folder) Remove(names ...string) error {
	drafts, _ := filepath.Glob(escaped(string(f)) + ".????????????????")
	for _, dir := range append(drafts, string(f)) {
		for _, name := range names {
			if err := os.RemoveAll(Folder(dir).Path(name)); err != nil {
				return err
			}
		}
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: something else lies there", err)
		}
	}
	return nil
}

// escaped returns a path as a pattern that matches it alone.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
