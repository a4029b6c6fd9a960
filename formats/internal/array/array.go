package array

import (
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/khop-gnn/khop/unified"
)

// Array is little-endian numbers in memory, which belongs to the file that they are of.
type Array struct {
	DType   unified.DType
	Bool    bool // 0 or 1, of the dtype uint8
	Shape   []int64
	Fortran bool    // column-major, without Strides
	Strides []int64 // in elements; nil: as Fortran says
	Data    []byte  // from the first element on
}

// One returns an array of one integer.
func One(n int64) *Array {
	return &Array{DType: unified.Int64, Shape: []int64{1}, Data: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// Len returns how many elements there are.
func (a *Array) Len() int64 {
	n := int64(1)
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// strides returns how far the elements along each dimension lie apart, where nothing lies between elements.
func strides(shape []int64, fortran bool) []int64 {
	apart, s := make([]int64, len(shape)), int64(1)
	for i := range shape {
		if !fortran {
			i = len(shape) - 1 - i
		}
		apart[i] = s
		s *= max(shape[i], 1)
	}
	return apart
}

// Reader returns a reader of the elements: row-major, unless it is a matrix whose columns lie together and columns
// allows them.
func (a *Array) Reader(columns bool) (*Reader, error) {
	apart := a.Strides
	if apart == nil {
		apart = strides(a.Shape, a.Fortran)
	}
	columns = columns && len(a.Shape) == 2 && apart[0] == 1 && apart[1] == a.Shape[0]
	h, err := New(a.DType, a.Shape, a.Bool, columns)
	if err != nil {
		return nil, err
	}
	together := true
	for i, s := range strides(a.Shape, false) {
		together = together && (a.Shape[i] <= 1 || apart[i] == s)
	}
	if columns || together {
		return NewMapped(a.Data, h)
	}
	return NewReader(&walker{a: a, apart: apart, left: a.Len(), at: make([]int64, len(a.Shape))}, h)
}

// walker yields the elements of an array in the order of its rows.
type walker struct {
	a     *Array
	apart []int64
	left  int64
	at    []int64
	from  int64 // the next element
}

// Read yields whole elements; p has room for one.
func (w *walker) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	size, n := w.a.DType.Size(), 0
	if int64(len(p)) < size {
		return 0, io.ErrShortBuffer
	}
	for ; w.left > 0 && int64(len(p)-n) >= size; w.left-- {
		n += copy(p[n:], w.a.Data[w.from*size:(w.from+1)*size])
		for i := len(w.at) - 1; i >= 0; i-- {
			w.at[i]++
			w.from += w.apart[i]
			if w.at[i] < w.a.Shape[i] {
				break
			}
			w.from -= w.at[i] * w.apart[i]
			w.at[i] = 0
		}
	}
	return n, nil
}

// Member is an array of a Set.
type Member struct {
	Path, Column string // what messages call it
	// Open opens it at its first element. The caller closes what comes with it.
	Open func() (*Reader, io.Closer, error)
	// OpenPlaces is Open where little is read, here and there; nil: it is read from the beginning on alone.
	OpenPlaces func() (*Reader, io.Closer, error)
	// OpenTexts is Open of an array of strings; nil: they are not read.
	OpenTexts func() (*Texts, io.Closer, error)
}

// String is what messages call an array.
func (m Member) String() string { return strings.TrimSuffix(m.Path+": "+m.Column, ": ") }

// Set is arrays by their names: the files of a folder, the members of an archive.
type Set map[string]Member

// Names returns the names of all arrays, sorted.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Add adds an array that is in memory. Columns says whether it may be read by columns where these lie together.
func (s Set) Add(name, path string, a *Array, columns bool) {
	s[name] = Member{Path: path, Open: func() (*Reader, io.Closer, error) {
		r, err := a.Reader(columns)
		return r, io.NopCloser(nil), err
	}}
}
