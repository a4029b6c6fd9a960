package convert

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/formats/internal/depot"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/direct"
)

// stored is a file that a task has written.
type stored struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Sum   uint64 `json:"xxh3"`
}

// output is such a file being written.
type output struct {
	file *os.File
	buf  *bufio.Writer
	sum  *xxh3.Hasher
	n    int64
}

// fileBuffer is how much a file of a task collects before it is written.
const fileBuffer = 256 << 10

// create begins a file of the attempt.
func (t *task) create(name string) (*output, error) {
	f, err := os.OpenFile(filepath.Join(t.dir(), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &output{f, bufio.NewWriterSize(direct.NewWriter(f), fileBuffer), xxh3.New(), 0}, nil
}

// Write takes the next bytes.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.buf.Write(p)
	_, _ = o.sum.Write(p[:n])
	o.n += int64(n)
	return n, err
}

// finish waits until the file is on the disk, and says what it is.
func (o *output) finish() (stored, error) {
	if err := errors.Join(o.buf.Flush(), o.file.Sync(), o.file.Close()); err != nil {
		return stored{}, err
	}
	return stored{filepath.Base(o.file.Name()), o.n, o.sum.Sum64()}, nil
}

// input is a file of another task. Reading it to its end compares it with its checksum.
type input struct {
	file depot.File
	path string
	of   stored
	sum  *xxh3.Hasher
	n    int64
}

// open opens a file in a folder of data.
func (s stored) open(dir depot.Depot) (*input, error) {
	f, err := dir.Open(s.Name, s.Bytes)
	if err != nil {
		return nil, err
	}
	return &input{file: f, path: dir.Path(s.Name), of: s, sum: xxh3.New()}, nil
}

func (in *input) corrupt() error { return depot.Damaged(in.path, "it does not fit its checksum") }

// Read reads on.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.file.Read(p)
	_, _ = in.sum.Write(p[:n])
	in.n += int64(n)
	if err == io.EOF && (in.n != in.of.Bytes || in.sum.Sum64() != in.of.Sum) {
		err = in.corrupt()
	}
	return n, err
}

// Close closes the file.
func (in *input) Close() error { return in.file.Close() }

// each calls take for all bytes of a file, some of them at a time: whole rows.
func (s stored) each(dir depot.Depot, row int, take func(rows []byte) error) error {
	in, err := s.open(dir)
	if err != nil {
		return err
	}
	buf := make([]byte, max(fileBuffer/row, 1)*row)
	for err == nil {
		var n int
		if n, err = io.ReadFull(in, buf); err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		if n%row != 0 && (err == nil || err == io.EOF) {
			err = in.corrupt()
		}
		if n > 0 && (err == nil || err == io.EOF) {
			if e := take(buf[:n]); e != nil {
				err = e
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, in.Close())
}

// keys is a list of keys in a file: the length of each, then its bytes.
type keys struct {
	stored
	Count int64 `json:"count"`
}

// writeKeys writes keys.
func (t *task) writeKeys(name string, of *source.Strings) (*keys, error) {
	out, err := t.create(name)
	if err != nil {
		return nil, err
	}
	var buf []byte
	if err := of.Each(func(key string) error {
		buf = append(binary.AppendUvarint(buf[:0], uint64(len(key))), key...)
		_, err := out.Write(buf)
		return err
	}); err != nil {
		return nil, errors.Join(err, out.file.Close())
	}
	s, err := out.finish()
	return &keys{s, of.Rows}, err
}

// eachKey calls take for all keys. They are valid until the next.
func (k *keys) eachKey(dir depot.Depot, take func(key []byte) error) error {
	in, err := k.open(dir)
	if err != nil {
		return err
	}
	r, key := bufio.NewReaderSize(in, fileBuffer), []byte(nil)
	for range k.Count {
		n, e := binary.ReadUvarint(r)
		if e == nil && n > uint64(k.Bytes) {
			e = in.corrupt()
		}
		if e == nil {
			key = append(key[:0], make([]byte, n)...)
			_, e = io.ReadFull(r, key)
		}
		if e == nil {
			e = take(key)
		}
		if e != nil {
			return errors.Join(e, in.Close())
		}
	}
	_, err = io.Copy(io.Discard, r) // nothing: it compares the checksum
	return errors.Join(err, in.Close())
}
