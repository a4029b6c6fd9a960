package embed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/wholefile"
)

// A changeLog is the file of the changes that were acknowledged: a line of JSON that names the program, and a record
// for each change. A record is a head (how many bytes the change has, its generation, and a checksum of both: 8 bytes
// each, little-endian), the change, and a checksum of the change. A process that is killed leaves the beginning of a
// record at the end, which is cut off; a machine that loses power may leave zeros there, too. All else that is not as
// it was written is an error.
type changeLog struct {
	path       string
	file, lock *os.File
	begin, end int64  // of records
	generation uint64 // of the last record; 0: there are none
	unknown    error  // since when nobody knows what is on the disk; nil: it is known
}

// logHead is the first line.
type logHead struct {
	Format  string `json:"format"`
	Dataset string `json:"dataset"`
	Program string `json:"program"`
}

const (
	logFormat = "khop-live 1"
	logFile   = "changes"
	lockFile  = "lock"
	headBytes = 24
	sumBytes  = 8
	mostHead  = 1 << 20 // bytes of the first line

	scratchName = ".rows-" // begins the names of files that are removed at once
)

// ErrLog is returned for a log that is damaged, is another program's, or is in use.
var ErrLog = errors.New("the log of changes cannot be read")

// openLog opens the log in a folder, or begins one, and returns all its changes as one. No other process has it open.
func openLog(folder, dataset, program string) (*changeLog, *Change, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, nil, err
	}
	l := &changeLog{path: filepath.Join(folder, logFile)}
	all, err := l.open(folder, logHead{logFormat, dataset, program})
	if err != nil {
		return nil, nil, errors.Join(err, l.close())
	}
	return l, all, nil
}

// open takes the lock of a folder, and reads the log there.
func (l *changeLog) open(folder string, of logHead) (all *Change, err error) {
	if l.lock, err = os.OpenFile(filepath.Join(folder, lockFile), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := lockWhole(l.lock); err != nil {
		return nil, fmt.Errorf("%w: %s: another process has it open (%w); close that one, or name another folder",
			ErrLog, folder, err)
	}
	wholefile.Clear(l.path)
	left, _ := filepath.Glob(filepath.Join(folder, scratchName+"*")) // by who was killed
	for _, name := range left {
		_ = os.Remove(name)
	}
	head, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(l.path); errors.Is(err, fs.ErrNotExist) {
		if err := l.replace(head, nil); err != nil {
			return nil, err
		}
		if err := wholefile.SyncFolder(filepath.Dir(folder)); err != nil {
			return nil, err
		}
	}
	if l.file, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	return l.read(head)
}

// replace writes the whole file anew, aside.
func (l *changeLog) replace(head, record []byte) error {
	return wholefile.Replace(l.path, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(append(head, '\n'), record...))
		return err
	})
}

// wrong is an error of the file at a place.
func (l *changeLog) wrong(at int64, what string) error {
	return fmt.Errorf("%w: %s: at byte %d %s; see whether its disk is damaged, and bring the file back from a copy, "+
		"or remove the folder to begin with the dataset", ErrLog, l.path, at, what)
}

// read reads what is there, which is of a program, and cuts off a record that was not finished.
func (l *changeLog) read(want []byte) (*Change, error) {
	st, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	first := make([]byte, min(st.Size(), mostHead))
	if _, err := l.file.ReadAt(first, 0); err != nil {
		return nil, err
	}
	line, _, whole := bytes.Cut(first, []byte("\n"))
	if !whole || !bytes.Equal(line, want) {
		return nil, l.other(line, want)
	}
	l.begin = int64(len(line)) + 1
	l.end, l.generation = l.begin, 0
	m := newMerged()
	for {
		c, err := l.next(st.Size() - l.end)
		if err != nil {
			return nil, err
		}
		if c == nil {
			break
		}
		m.add(c)
	}
	if l.end < st.Size() {
		if err := errors.Join(l.file.Truncate(l.end), l.file.Sync()); err != nil {
			return nil, err
		}
	}
	return m.change(), nil
}

// other says what a log is of whose first line is not as it must be.
func (l *changeLog) other(line, want []byte) error {
	var have, expected logHead
	_ = json.Unmarshal(want, &expected)
	if err := json.Unmarshal(line, &have); err != nil || have.Format != logFormat {
		return l.wrong(0, "there is no line that names format "+logFormat)
	}
	what := "another model or other layers"
	if have.Dataset != expected.Dataset {
		what = "another dataset, or one that has changed since"
	}
	return fmt.Errorf("%w: %s is of %s; name another folder, or remove this one to begin with the dataset", ErrLog,
		l.path, what)
}

// next reads the record at the end of those before, of which left bytes are left; nil where there is none, or its
// beginning only.
func (l *changeLog) next(left int64) (*Change, error) {
	if left < headBytes {
		return nil, nil
	}
	head, at := make([]byte, headBytes), l.end
	if _, err := l.file.ReadAt(head, at); err != nil {
		return nil, err
	}
	n, generation := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[8:])
	if binary.LittleEndian.Uint64(head[16:]) != xxh3.Hash(head[:16]) {
		rest := make([]byte, left)
		if _, err := l.file.ReadAt(rest, at); err != nil {
			return nil, err
		}
		if len(bytes.Trim(rest, "\x00")) == 0 { // space that was taken, and never written
			return nil, nil
		}
		return nil, l.wrong(at, "the head of a record is damaged")
	}
	if left -= headBytes + sumBytes; left < 0 || n > uint64(left) {
		return nil, nil
	}
	body := make([]byte, n+sumBytes)
	if _, err := l.file.ReadAt(body, at+headBytes); err != nil {
		return nil, err
	}
	sum := binary.LittleEndian.Uint64(body[n:])
	if body = body[:n]; sum != xxh3.HashSeed(body, generation) {
		if sum == 0 && n == uint64(left) {
			return nil, nil
		}
		return nil, l.wrong(at, fmt.Sprintf("the change of generation %d is damaged", generation))
	}
	c, err := readChange(body)
	if err != nil || generation <= l.generation || l.generation > 0 && generation != l.generation+1 {
		return nil, l.wrong(at, fmt.Sprintf("the record of generation %d follows none of its kind", generation))
	}
	l.end, l.generation = at+headBytes+int64(n)+sumBytes, generation
	return c, nil
}

// recordOf returns a change as it is in the file.
func recordOf(c *Change, generation uint64) []byte {
	body, le := c.bytes(), binary.LittleEndian
	to := make([]byte, 0, headBytes+len(body)+sumBytes)
	to = le.AppendUint64(to, uint64(len(body)))
	to = le.AppendUint64(to, generation)
	to = le.AppendUint64(to, xxh3.Hash(to[:16]))
	to = append(to, body...)
	return le.AppendUint64(to, xxh3.HashSeed(body, generation))
}

// append writes a change, and waits until it is on the disk. After an error the file is as before; where nobody knows
// whether it is, unknown says so.
func (l *changeLog) append(c *Change) error {
	raw := recordOf(c, l.generation+1)
	if _, err := l.file.WriteAt(raw, l.end); err != nil {
		if back := l.file.Truncate(l.end); back != nil {
			l.unknown = errors.Join(err, back)
		}
		return l.failed(err)
	}
	if err := l.file.Sync(); err != nil {
		l.unknown = err
		return l.failed(err)
	}
	l.end, l.generation = l.end+int64(len(raw)), l.generation+1
	return nil
}

// failed names the remedy of a change that could not be written.
func (l *changeLog) failed(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("%w; nothing has changed: make room on its disk, and make the changes again",
		&fs.PathError{Op: "write", Path: l.path, Err: err})
}

// usable reports that nobody knows what is on the disk.
func (l *changeLog) usable() error {
	if l.unknown == nil {
		return nil
	}
	return fmt.Errorf("%w: nobody knows whether %s has the last change since its disk failed: %w; see to the disk, "+
		"close this and open it again, and see which generation is there", ErrLog, l.path, l.unknown)
}

// compact makes all records one.
func (l *changeLog) compact() error {
	if l.generation == 0 {
		return nil
	}
	head := make([]byte, l.begin-1)
	if _, err := l.file.ReadAt(head, 0); err != nil {
		return err
	}
	was := *l
	all, err := l.read(head)
	if err != nil {
		*l = was
		return err
	}
	raw := recordOf(all, l.generation)
	err = l.replace(head, raw)
	now, opening := os.OpenFile(l.path, os.O_RDWR, 0)
	if err := errors.Join(err, opening); err != nil {
		if opening == nil {
			opening = now.Close()
		}
		if !sameFile(l.file, l.path) {
			l.unknown = err
		}
		return errors.Join(err, opening)
	}
	old := l.file
	l.file, l.end = now, l.begin+int64(len(raw))
	return old.Close()
}

// sameFile reports whether a path leads to an open file.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	b, err2 := os.Stat(path)
	return errors.Join(err, err2) == nil && os.SameFile(a, b)
}

func (l *changeLog) close() (err error) {
	for _, f := range []*os.File{l.file, l.lock} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
