package pickle

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/khop-gnn/khop/formats/internal/array"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// known are the names that stand for data.
var known = map[Name]bool{
	"numpy.core.multiarray._reconstruct": true, "numpy._core.multiarray._reconstruct": true, "numpy.ndarray": true,
	"numpy.dtype": true, "numpy.core.multiarray.scalar": true, "numpy._core.multiarray.scalar": true,
	"numpy.core.numeric._frombuffer": true, "numpy._core.numeric._frombuffer": true,
	"_codecs.encode": true, "collections.OrderedDict": true, "collections.defaultdict": true,
	"__builtin__.list": true, "builtins.list": true, "builtins.set": true, "__builtin__.set": true,
	"builtins.dict": true, "builtins.bytearray": true, "copy_reg._reconstructor": true, "copyreg._reconstructor": true,
	"builtins.object": true, "__builtin__.object": true, "builtins.int": true, "__builtin__.int": true,
	"scipy.sparse.csr.csr_matrix": true, "scipy.sparse._csr.csr_matrix": true,
	"scipy.sparse.coo.coo_matrix": true, "scipy.sparse._coo.coo_matrix": true,
}

// build makes of a name and its arguments a value, where that is known, else an Object.
func (m *machine) build(n Name, args Tuple) (any, error) {
	switch {
	case n == "_codecs.encode" && len(args) == 2:
		if s, ok := args[0].(string); ok {
			if err := m.take(int64(len(s))); err != nil {
				return nil, err
			}
			if b, ok := latin1(s); ok {
				return b, nil
			}
		}
	case n == "collections.OrderedDict" && len(args) == 0:
		return &Dict{}, nil
	case n == "collections.defaultdict" && len(args) <= 1:
		return &Dict{}, nil
	case (n == "builtins.bytearray") && len(args) == 1:
		if b, ok := args[0].([]byte); ok {
			return b, nil
		}
	}
	return &Object{Class: n, Args: args}, nil
}

// latin1 returns the bytes that a string of characters below 256 stands for.
func latin1(s string) ([]byte, bool) {
	b := make([]byte, 0, len(s))
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		if c > 255 || c == utf8.RuneError && n == 1 {
			return nil, false
		}
		b, s = append(b, byte(c)), s[n:]
	}
	return b, true
}

// AsArray returns a value as an array of numbers; ErrFormat where it is not one.
func AsArray(v any) (*array.Array, error) {
	o, ok := v.(*Object)
	if !ok {
		return nil, fmt.Errorf("%w: it is %T, not an array", ErrFormat, v)
	}
	t, ok := o.State.(Tuple)
	if !strings.HasSuffix(string(o.Class), "multiarray._reconstruct") || !ok || len(t) != 5 {
		return nil, fmt.Errorf("%w: it is %.80q, not an array", ErrFormat, string(o.Class))
	}
	a := &array.Array{}
	shape, ok := t[1].(Tuple)
	if !ok || len(shape) > 8 {
		return nil, fmt.Errorf("%w: an array without a shape", ErrFormat)
	}
	size := int64(1)
	for _, d := range shape {
		n, ok := d.(int64)
		if !ok || n < 0 || n > 0 && size > (1<<50)/n {
			return nil, fmt.Errorf("%w: an array without a shape, or too large", ErrFormat)
		}
		a.Shape, size = append(a.Shape, n), size*n
	}
	var err error
	if a.DType, err = dtype(t[2]); err != nil {
		return nil, err
	}
	a.Fortran, _ = t[3].(bool)
	switch b := t[4].(type) {
	case []byte:
		a.Data = b
	case string: // of Python 2
		if a.Data, ok = latin1(b); !ok {
			a.Data = []byte(b)
		}
	default:
		return nil, fmt.Errorf("%w: an array of objects", ErrFormat)
	}
	if int64(len(a.Data)) != size*a.DType.Size() {
		return nil, fmt.Errorf("%w: %d bytes for an array of %v %v", ErrFormat, len(a.Data), a.Shape, a.DType)
	}
	return a, nil
}

// dtype returns the type that a pickled numpy.dtype names.
func dtype(v any) (unified.DType, error) {
	o, ok := v.(*Object)
	if !ok || o.Class != "numpy.dtype" || len(o.Args) == 0 {
		return 0, fmt.Errorf("%w: an array without a type", ErrFormat)
	}
	name := Text(o.Args[0])
	if state, ok := o.State.(Tuple); ok && len(state) > 1 && Text(state[1]) == ">" {
		return 0, fmt.Errorf("%w: an array of big-endian numbers, which is not supported", ErrFormat)
	}
	d := unified.ParseNumPy(name)
	if d == unified.Invalid {
		return 0, fmt.Errorf("%w: an array of the type %.20q", ErrFormat, name)
	}
	return d, nil
}

// Text returns a string, which older Pythons write as bytes; "" for anything else.
func Text(v any) string {
	switch s := v.(type) {
	case string:
		return s
	case []byte:
		return string(s)
	}
	return ""
}

// Ints returns the elements of an array of integers, in row-major order. It counts 8 bytes an element in l, and as many
// again while it works; what it returns stays counted.
func Ints(a *array.Array, l *pinned.Ledger) (_ []int64, err error) {
	keep := 8 * a.Len()
	if err := l.Take(pinned.Sources, 2*keep); err != nil {
		return nil, err
	}
	defer func() {
		if l.Give(pinned.Sources, keep); err != nil {
			l.Give(pinned.Sources, keep)
		}
	}()
	switch a.DType {
	case unified.Float16, unified.Float32, unified.Float64, unified.Uint64:
		return nil, fmt.Errorf("%w: an array of %v, integers are wanted", ErrFormat, a.DType)
	}
	r, err := a.Reader(false)
	if err != nil {
		return nil, err
	}
	v, err := r.Ints(r.Elements())
	return slices.Clone(v), err
}

// Describe says what a value is, in a few words.
func Describe(v any) string {
	switch x := v.(type) {
	case *Dict:
		var keys []string
		for i, k := range x.Keys {
			if i == 12 {
				keys = append(keys, "..")
				break
			}
			switch k.(type) {
			case string, int64, float64, bool, nil:
				keys = append(keys, fmt.Sprintf("%.80q", fmt.Sprint(k)))
			default: // written out, it could take any room: what it holds may be shared
				keys = append(keys, fmt.Sprintf("%T", k))
			}
		}
		return "a dictionary of " + strings.Join(keys, ", ")
	case *Object:
		return "an object of " + string(x.Class)
	}
	return fmt.Sprintf("%T", v)
}
