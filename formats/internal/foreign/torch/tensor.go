package torch

import (
	"fmt"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/unified"
)

// maxSpread is how many times larger a tensor may be than the bytes that it is a view of, beyond the first freeSpread:
// strides of 0 repeat elements.
const (
	maxSpread  = 64
	freeSpread = 1 << 24
)

// Tensor returns a value as a tensor; ok is false where it is not one.
func (f *File) Tensor(v any) (t *array.Array, ok bool, err error) {
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
	return a, true, nil
}

// view returns the tensor that an object describes: storage, first element, shape, strides.
func (f *File) view(o *pickle.Object) (*array.Array, error) {
	bad := func(what string) (*array.Array, error) { return nil, fmt.Errorf("%w: a tensor %s", ErrFormat, what) }
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
	d, bools := dtypeOf(dtype)
	data, there := f.storages[key]
	if d == unified.Invalid || !there {
		return bad("whose storage is not there")
	}
	first, _ := o.Args[1].(int64)
	t := &array.Array{DType: d, Bool: bools}
	if t.Shape, ok = integers(o.Args[2]); !ok {
		return bad("without a shape")
	}
	if t.Strides, ok = integers(o.Args[3]); !ok || len(t.Strides) != len(t.Shape) {
		return bad("without strides")
	}
	size := d.Size()
	have := int64(len(data)) / size
	last, elements := int64(0), int64(1)
	for i, n := range t.Shape {
		if n > 0 && elements > (1<<56)/n || n > 1 && t.Strides[i] > (1<<56)/n {
			return bad(fmt.Sprintf("of the shape %v", t.Shape))
		}
		elements *= n
		last += max(n-1, 0) * t.Strides[i]
	}
	if first < 0 || begin < 0 || first > have || begin > have-first || elements > 0 && last >= have-first-begin {
		return bad(fmt.Sprintf("of the shape %v begins at %d of %d elements", t.Shape, first, have))
	}
	if elements*size > freeSpread && elements/maxSpread > have {
		return bad(fmt.Sprintf("of the shape %v is made of %d elements", t.Shape, have))
	}
	t.Data = data[(first+begin)*size:]
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
