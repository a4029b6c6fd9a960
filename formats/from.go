package formats

import (
	"context"
	"errors"
	"slices"
)

// Source is a dataset that comes to a folder of this machine, all at once or bit by bit, such as one at an address: see
// package remote. OpenFrom calls its methods in their order, each once, and Close whatever happens. Files go by their
// numbers in the list that Stage takes.
type Source interface {
	// Manifest returns the text of dataset.json, of at most that number of bytes. ErrIncomplete if there is none.
	Manifest(ctx context.Context, most int64) (text []byte, err error)
	// Stage has manifest and files in a folder, each file in its full size, and returns the folder. Whole are heads
	// and footers, and all files but those that Mapped names.
	Stage(ctx context.Context, m *Manifest, files []File) (dir string, err error)
	// Mapped takes the elements of each file, mapped, nil where there are none. It returns the files that still come,
	// and what Dataset.Partial gives to who reads them; nil: all are there.
	Mapped(ctx context.Context, bodies [][]byte) (late []int, partial any, err error)
	// Stop ends what still comes, before the files are unmapped.
	Stop()
	// Close frees what Stage has taken, after the files were unmapped.
	Close() error
}

// File is a file of a dataset, as a Source is asked for it.
type File struct {
	*Part
	Column *ArrayInfo // nil: of a split
	chunk  int64
}

// Sums decodes the checksums of the file: of head and footer, and of each chunk of its elements. ErrCorrupt if one
// cannot be one.
func (f *File) Sums() (head uint64, chunks []uint64, err error) {
	if head, err = parseHash(f.HeadXXH3); err != nil {
		return 0, nil, err
	}
	chunks, err = f.sums(f.chunk)
	return head, chunks, err
}

// OpenFrom opens what a source has, which it owns from then on. Errors are those of Open and of the source.
func OpenFrom(ctx context.Context, s Source) (d *Dataset, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	text, err := s.Manifest(ctx, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, f := range m.files() {
		files = append(files, File{f.part, f.column, m.ChunkBytes})
	}
	dir, err := s.Stage(ctx, m, files)
	if err != nil {
		return nil, err
	}
	if d, err = openDir(dir); err != nil {
		return nil, err
	}
	if err := d.mappedFrom(ctx, s); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.source = s
	return d, nil
}

// mappedFrom tells the source where files are mapped, and notes which still come.
func (d *Dataset) mappedFrom(ctx context.Context, s Source) error {
	elements := map[*Part][]byte{}
	for _, v := range d.verified {
		elements[v.part] = v.body
	}
	files := d.manifest.files()
	bodies := make([][]byte, len(files))
	for i, f := range files {
		bodies[i] = elements[f.part]
	}
	late, partial, err := s.Mapped(ctx, bodies)
	if err != nil {
		return err
	}
	for _, i := range late {
		of := slices.IndexFunc(d.files, func(o openedFile) bool { return o.path == d.filePath(files[i].part) })
		d.files[of].partial = true
	}
	d.partial = partial
	return nil
}

// Partial returns a value by which package loader brings parts of the dataset that are not on this machine; nil if all
// are.
func (d *Dataset) Partial() any { return d.partial }
