package diskio

import (
	"errors"
	"os"

	"github.com/khop-gnn/khop/pinned"
)

// File is an open file that a Reader reads.
type File struct {
	file   *os.File // nil: another machine has the rows
	path   string
	size   int64
	index  int   // among the files of the Reader, or notRegistered
	page   int64 // offsets and lengths of requests may be multiples of it
	sector int64 // or of this, which is no more
	direct bool  // past the page cache
	why    string
}

// notRegistered is the index of a file that came after its Reader.
const notRegistered = -1

// Path returns the file's name.
func (f *File) Path() string { return f.path }

// Direct reports whether the file is read past the page cache, and if not, why.
func (f *File) Direct() (ok bool, why string) { return f.direct, f.why }

// diskPage is what requests are multiples of, where the disk does not ask for more.
const diskPage = 4096

// diskSector is the least that a disk reads.
const diskSector = 512

// openFile opens the file that b is mapped from, and says where in it b begins. It is read past the page cache where
// the file system allows that.
func openFile(b []byte) (*File, int64, error) {
	f, offset, err := openBuffered(b, "")
	if err != nil {
		return nil, 0, err
	}
	if err := f.goDirect(); err != nil {
		f.why = err.Error()
	}
	setDefault(&f.sector, f.page)
	return f, offset, nil
}

// openBuffered is openFile for a file that is read through the page cache, and says why.
func openBuffered(b []byte, why string) (*File, int64, error) {
	file, offset, err := pinned.OpenMapped(b)
	if err != nil {
		return nil, 0, err
	}
	st, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return &File{file: file, path: file.Name(), size: st.Size(), page: diskPage, why: why}, offset, nil
}

func (f *File) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
