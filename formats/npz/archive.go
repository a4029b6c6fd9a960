package npz

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats/npy"
	"github.com/khop-gnn/khop/formats/source"
)

// Looks reports whether a file's first bytes are those of an archive.
func Looks(head []byte) bool {
	return strings.HasPrefix(string(head), "PK\x03\x04") || strings.HasPrefix(string(head), "PK\x05\x06")
}

// archive is an open .npz file.
type archive struct {
	path    string
	zip     *zip.ReadCloser
	members map[string]*zip.File // by name without ".npy"
	budget  *source.Budget
}

func open(path string, b *source.Budget) (*archive, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return nil, source.Error(path, "", -1, "", err)
	}
	a := &archive{path: path, zip: z, members: make(map[string]*zip.File), budget: b}
	for _, f := range z.File {
		if name, ok := strings.CutSuffix(f.Name, ".npy"); ok && a.members[name] == nil {
			a.members[name] = f
		}
	}
	return a, nil
}

// Close closes the file.
func (a *archive) Close() error { return a.zip.Close() }

func (a *archive) has(name string) bool { return a.members[name] != nil }

// fail is an error about a member and, unless negative, its row.
func (a *archive) fail(member string, row int64, format string, args ...any) error {
	return source.Error(a.path, member, row, "", fmt.Errorf(format, args...))
}

// header reads the header of a member.
func (a *archive) header(name string) (npy.Header, error) {
	r, h, err := a.open(name)
	if err != nil {
		return h, err
	}
	return h, r.Close()
}

// open opens a member behind its header.
func (a *archive) open(name string) (io.ReadCloser, npy.Header, error) {
	f := a.members[name]
	if f == nil {
		return nil, npy.Header{}, a.fail(name, -1, "is missing from the archive")
	}
	r, err := f.Open()
	if err != nil {
		return nil, npy.Header{}, a.fail(name, -1, "%w", err)
	}
	h, err := npy.ReadHeader(r)
	if err != nil {
		return nil, h, errors.Join(a.fail(name, -1, "%w", err), r.Close())
	}
	return r, h, nil
}

// array reads a whole member, which stays charged.
func (a *archive) array(name string) (arr *npy.Array, err error) {
	_, err = a.elements(name, func(r io.Reader, h npy.Header) error {
		arr, err = npy.ReadElements(r, h, a.budget)
		return err
	})
	return arr, err
}

// elements has a function read all elements of a member.
func (a *archive) elements(name string, read func(r io.Reader, h npy.Header) error) (npy.Header, error) {
	r, h, err := a.open(name)
	if err != nil {
		return h, err
	}
	defer r.Close()
	if err = read(r, h); err == nil {
		err = atEnd(r)
	}
	if err != nil {
		return h, a.fail(name, -1, "%w", err)
	}
	return h, nil
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

// ints reads a whole member of integers with the given number of dimensions; 0: any. 8 bytes each stay charged.
func (a *archive) ints(name string, rank int) (v, shape []int64, err error) {
	h, err := a.elements(name, func(r io.Reader, h npy.Header) error {
		if rank > 0 && len(h.Shape) != rank {
			return fmt.Errorf("is %v, an array of %d dimension(s) is wanted", &h, rank)
		}
		v, err = npy.ReadInts(r, h, a.budget)
		return err
	})
	return v, h.Shape, err
}

// stream copies the elements of a member to w.
func (a *archive) stream(ctx context.Context, w io.Writer, name string) error {
	_, err := a.elements(name, func(r io.Reader, h npy.Header) error { return npy.Stream(ctx, w, r, h, a.budget) })
	return err
}

// strings reads a member of strings; ok is false if it is missing or holds objects, which is noted.
func (a *archive) strings(name string) (list []string, ok bool, err error) {
	if !a.has(name) {
		return nil, false, nil
	}
	h, err := a.header(name)
	if err != nil {
		return nil, false, err
	}
	if h.Kind != npy.Text && h.Kind != npy.Bytes || len(h.Shape) != 1 {
		return nil, false, nil
	}
	if err := a.budget.Take(h.Bytes() + 16*h.Elements()); err != nil { // of the strings themselves
		return nil, false, a.fail(name, -1, "%w", err)
	}
	arr, err := a.array(name)
	if err != nil {
		return nil, false, err
	}
	defer a.budget.Give(h.Bytes())
	list, err = arr.Strings()
	if err != nil {
		return nil, false, a.fail(name, -1, "%w", err)
	}
	return list, true, nil
}

// noteObjects says which members hold objects.
func (a *archive) noteObjects(g *source.Graph) {
	var names []string
	for _, f := range a.zip.File {
		name := strings.TrimSuffix(f.Name, ".npy")
		if a.members[name] != f {
			continue
		}
		if h, err := a.header(name); err == nil && h.Kind == npy.Object {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		g.Note("not stored, because they are Python objects, which are never executed: %s", strings.Join(names, ", "))
	}
}
