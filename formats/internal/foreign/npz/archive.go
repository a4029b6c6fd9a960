package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
)

// Looks reports whether a file's first bytes are those of an archive of arrays: of which the first member is one, or of
// one without members.
func Looks(head []byte) bool {
	const nameLength, name = 26, 30 // in the header of a member
	if len(head) < name || !bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		return bytes.HasPrefix(head, []byte("PK\x05\x06"))
	}
	end := min(name+int(binary.LittleEndian.Uint16(head[nameLength:])), len(head))
	return bytes.HasSuffix(head[name:end], []byte(".npy"))
}

// Archive is an open .npz file.
type Archive struct {
	Path    string // what messages call it
	file    io.Closer
	zip     *zip.Reader
	members map[string]*zip.File // by name without ".npy"
	ledger  *pinned.Ledger
	read    map[string]bool // members that have been looked at, as parts of a layout

	edgeColumns []string // members that are columns of edges
}

// Set returns the arrays of the archive.
func (a *Archive) Set() array.Set {
	set := array.Set{}
	for name := range a.members {
		set[name] = array.Member{Path: a.Path, Column: name, Open: func() (*array.Reader, io.Closer, error) {
			r, h, err := a.open(name)
			if err != nil {
				return nil, nil, err
			}
			v, err := array.NewReader(&toEnd{r, h.Bytes()}, h)
			if err != nil {
				return nil, nil, errors.Join(a.fail(name, -1, "%w", err), r.Close())
			}
			return v, r, nil
		}}
	}
	return set
}

// toEnd reads the elements of a member. With the last ones it compares the archive's checksum.
type toEnd struct {
	r    io.Reader
	left int64
}

func (t *toEnd) Read(p []byte) (int, error) {
	n, err := t.r.Read(p[:min(int64(len(p)), t.left)])
	if t.left -= int64(n); t.left == 0 && err == nil {
		err = atEnd(t.r)
	}
	if err != nil && err != io.EOF {
		return 0, err // io.ReadFull leaves out the error where all bytes are there
	}
	return n, err
}

// Open opens an archive. Memory for expanded members is counted in b. Its owner calls Close.
func Open(at source.Place, b *pinned.Ledger) (*Archive, error) {
	f, err := at.Raw()
	if err != nil {
		return nil, err
	}
	path := f.Path
	z, err := zip.NewReader(f, f.Size)
	if err != nil {
		return nil, errors.Join(source.Error(path, "", -1, "", err), f.Close())
	}
	a := &Archive{Path: path, file: f, zip: z, members: make(map[string]*zip.File), ledger: b,
		read: make(map[string]bool)}
	for _, f := range z.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok && a.members[name] == nil {
			a.members[name] = f
		}
	}
	return a, nil
}

// Close closes the file.
func (a *Archive) Close() error { return a.file.Close() }

func (a *Archive) has(name string) bool {
	a.read[name] = true
	return a.members[name] != nil
}

// fail is an error about a member and, unless negative, its row.
func (a *Archive) fail(member string, row int64, format string, args ...any) error {
	return source.Error(a.Path, member, row, "", fmt.Errorf(format, args...))
}

// header reads the header of a member.
func (a *Archive) header(name string) (array.Header, error) {
	r, h, err := a.open(name)
	if err != nil {
		return h, err
	}
	return h, r.Close()
}

// open opens a member behind its header.
func (a *Archive) open(name string) (io.ReadCloser, array.Header, error) {
	a.read[name] = true
	f := a.members[name]
	if f == nil {
		return nil, array.Header{}, a.fail(name, -1, "is missing from the archive")
	}
	r, err := f.Open()
	if err != nil {
		return nil, array.Header{}, a.fail(name, -1, "%w", err)
	}
	c := &source.Counting{R: r}
	h, err := array.ReadHeader(c)
	if err == nil && h.Kind != array.Object && h.Kind != array.Foreign {
		err = compareSize(&h, f.UncompressedSize64, uint64(c.N))
	}
	if err != nil {
		return nil, h, errors.Join(a.fail(name, -1, "%w", err), r.Close())
	}
	return r, h, nil
}

// compareSize compares what the archive says that a member takes, of which the header is a part, with its shape.
func compareSize(h *array.Header, size, header uint64) error {
	switch have := size - min(header, size); {
	case have < uint64(h.Bytes()):
		return fmt.Errorf("%v: %d of %d bytes are there", h, have, h.Bytes())
	case have > uint64(h.Bytes()):
		return fmt.Errorf("%v: something follows the array", h)
	}
	return nil
}

// elements has a function read all elements of a member.
func (a *Archive) elements(name string, read func(r io.Reader, h array.Header) error) error {
	r, h, err := a.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	if err = read(r, h); err == nil {
		err = atEnd(r)
	}
	var known *formats.Error
	if err != nil && !errors.As(err, &known) {
		err = a.fail(name, -1, "%w", err)
	}
	return err
}

// atEnd reads on to the end, where the archive's checksum is compared.
func atEnd(r io.Reader) error {
	var b [1]byte
	n, err := r.Read(b[:])
	switch {
	case n > 0:
		return errors.New("something follows the array")
	case err == io.EOF:
		return nil
	case err == nil:
		return io.ErrNoProgress
	}
	return err
}

// vector returns the length of a member of one dimension.
func (a *Archive) vector(name string) (int64, error) {
	h, err := a.header(name)
	if err == nil && len(h.Shape) != 1 {
		err = a.fail(name, -1, "is %v, an array of 1 dimension is wanted", &h)
	}
	return h.Elements(), err
}

// stringBytes is what a string takes besides its characters, about.
const stringBytes = 32

// strings reads a member of rows strings; ok is false if it is missing, or holds something else, which is noted.
func (a *Archive) strings(g *source.Graph, name string, rows int64) (list []string, ok bool, err error) {
	if !a.has(name) {
		return nil, false, nil
	}
	h, err := a.header(name)
	if err != nil || h.Kind != array.Text && h.Kind != array.Bytes || len(h.Shape) != 1 {
		return nil, false, err
	}
	if h.Elements() != rows {
		g.Tell(source.LeftOut, name, h.Elements(), "%s is not stored: it has %d names for %d", name, h.Elements(), rows)
		return nil, false, nil
	}
	err = a.elements(name, func(r io.Reader, h array.Header) error {
		if err := a.ledger.Take(pinned.Sources, h.Bytes()+stringBytes*h.Elements()); err != nil {
			return err
		}
		list, err = array.ReadStrings(r, h, a.ledger)
		return err
	})
	return list, err == nil, err
}
