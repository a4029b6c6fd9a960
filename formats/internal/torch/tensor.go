package torch

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/npy"
	"github.com/khop-gnn/khop/formats/internal/pickle"
	"github.com/khop-gnn/khop/unified"
)

// Tensor is a view of a storage, or an array of NumPy.
type Tensor struct {
	DType unified.DType
	Bool  bool
	Shape []int64

	strides []int64
	data    []byte // from the first element on
}

// maxSpread is how many times larger a tensor may be than the bytes that it is a view of, beyond the first freeSpread:
// strides of 0 repeat elements.
const (
	maxSpread  = 64
	freeSpread = 1 << 24
)

// Tensor returns a value as a tensor; ok is false where it is none.
func (f *File) Tensor(v any) (t *Tensor, ok bool, err error) {
	o, isObject := v.(*pickle.Object)
	if !isObject {
		return nil, false, nil
	}
	switch o.Class {
	case "torch._utils._rebuild_parameter":
		if len(o.Args) == 0 || o.Args[0] == v {
			return nil, false, nil
		}
		if inner, isObject := o.Args[0].(*pickle.Object); !isObject || inner.Class == o.Class {
			return nil, false, nil
		}
		return f.Tensor(o.Args[0])
	case "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_tensor":
		t, err = f.view(o)
		return t, true, err
	}
	a, err := pickle.AsArray(v)
	if err != nil || a.Fortran {
		return nil, false, nil
	}
	t = &Tensor{DType: a.DType, Shape: a.Shape, data: a.Data}
	t.strides = rowMajor(t.Shape)
	return t, true, nil
}

func rowMajor(shape []int64) []int64 {
	strides, s := make([]int64, len(shape)), int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = s
		s *= max(shape[i], 1)
	}
	return strides
}

// view returns the tensor that an object describes: storage, first element, shape, strides.
func (f *File) view(o *pickle.Object) (*Tensor, error) {
	bad := func(what string) (*Tensor, error) { return nil, fmt.Errorf("%w: a tensor %s", ErrFormat, what) }
	if len(o.Args) < 4 {
		return bad("without a shape")
	}
	p, ok := o.Args[0].(*pickle.Persistent)
	if !ok {
		return bad("without a storage")
	}
	key, dtype, begin, ok := storage(p)
	if !ok {
		return bad("of an unknown type")
	}
	if strings.HasSuffix(string(o.Class), "v3") && len(o.Args) > 6 {
		name, _ := o.Args[6].(pickle.Name)
		dtype = strings.TrimPrefix(string(name), "torch.")
	}
	d, ok := dtypes[dtype]
	data, there := f.storages[key]
	if !ok || !there {
		return bad("whose storage is not there")
	}
	first, _ := o.Args[1].(int64)
	t := &Tensor{DType: d.d, Bool: d.bools}
	if t.Shape, ok = integers(o.Args[2]); !ok {
		return bad("without a shape")
	}
	if t.strides, ok = integers(o.Args[3]); !ok || len(t.strides) != len(t.Shape) {
		return bad("without strides")
	}
	size := d.d.Size()
	have := int64(len(data)) / size
	last, elements := int64(0), int64(1)
	for i, n := range t.Shape {
		if n > 0 && elements > (1<<56)/n || n > 1 && t.strides[i] > (1<<56)/n {
			return bad(fmt.Sprintf("of the shape %v", t.Shape))
		}
		elements *= n
		last += max(n-1, 0) * t.strides[i]
	}
	if first < 0 || begin < 0 || first > have || begin > have-first || elements > 0 && last >= have-first-begin {
		return bad(fmt.Sprintf("of the shape %v begins at %d of %d elements", t.Shape, first, have))
	}
	if elements*size > freeSpread && elements/maxSpread > have {
		return bad(fmt.Sprintf("of the shape %v is made of %d elements", t.Shape, have))
	}
	t.data = data[(first+begin)*size:]
	return t, nil
}

// integers returns the numbers of a tuple, none of which is negative.
func integers(v any) ([]int64, bool) {
	tuple, ok := v.(pickle.Tuple)
	if o, isObject := v.(*pickle.Object); isObject && o.Class == "torch.Size" && len(o.Args) == 1 {
		tuple, ok = o.Args[0].(pickle.Tuple)
	}
	if !ok || len(tuple) > 16 {
		return nil, false
	}
	list := []int64{}
	for _, x := range tuple {
		n, ok := x.(int64)
		if !ok || n < 0 {
			return nil, false
		}
		list = append(list, n)
	}
	return list, true
}

// Elements returns how many elements there are.
func (t *Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Reader returns a reader of the elements: row-major, unless it is a matrix whose columns lie together and fortran
// allows them.
func (t *Tensor) Reader(fortran bool) (*npy.Reader, error) {
	columns := false
	if len(t.Shape) == 2 && fortran {
		columns = t.strides[0] == 1 && t.strides[1] == t.Shape[0]
	}
	h, err := npy.NewHeader(t.DType, t.Shape, t.Bool, columns)
	if err != nil {
		return nil, err
	}
	if columns || t.contiguous() {
		return npy.NewMapped(t.data, h)
	}
	return npy.NewReader(&walker{t: t, left: t.Elements(), at: make([]int64, len(t.Shape))}, h)
}

func (t *Tensor) contiguous() bool {
	want := rowMajor(t.Shape)
	for i, n := range t.Shape {
		if n > 1 && t.strides[i] != want[i] {
			return false
		}
	}
	return true
}

// walker yields the elements of a tensor in the order of its rows.
type walker struct {
	t    *Tensor
	left int64
	at   []int64
	from int64 // element of the storage
}

// Read yields whole elements; p has room for one.
func (w *walker) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, io.EOF
	}
	size, n := w.t.DType.Size(), 0
	if int64(len(p)) < size {
		return 0, io.ErrShortBuffer
	}
	for ; w.left > 0 && int64(len(p)-n) >= size; w.left-- {
		n += copy(p[n:], w.t.data[w.from*size:(w.from+1)*size])
		for i := len(w.at) - 1; i >= 0; i-- {
			w.at[i]++
			w.from += w.t.strides[i]
			if w.at[i] < w.t.Shape[i] {
				break
			}
			w.from -= w.at[i] * w.t.strides[i]
			w.at[i] = 0
		}
	}
	return n, nil
}

// number returns a tensor of one integer.
func number(n int64) *Tensor {
	return &Tensor{DType: unified.Int64, Shape: []int64{1}, strides: []int64{1},
		data: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}
