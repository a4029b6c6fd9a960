package streams

import (
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// plainType returns the type as which a column is written. The error says what it is that is not kept.
func plainType(t arrow.DataType) (arrow.DataType, error) {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return taken(t.ValueType, "a dictionary of")
	case *arrow.RunEndEncodedType:
		return taken(t.Encoded(), "runs of")
	case *arrow.StringViewType:
		return arrow.BinaryTypes.LargeString, nil
	case *arrow.BinaryViewType:
		return arrow.BinaryTypes.LargeBinary, nil
	case *arrow.ListViewType, *arrow.LargeListViewType:
		return nil, fmt.Errorf("a view of lists, %v: cast it to a list", t)
	case arrow.NestedType:
		return nested(t)
	}
	return t, nil
}

// nested is plainType for types that hold others.
func nested(t arrow.NestedType) (arrow.DataType, error) {
	fields, same := slices.Clone(t.Fields()), true
	for i, f := range fields {
		e, err := plainType(f.Type)
		if err != nil {
			return nil, err
		}
		same = same && e == f.Type
		fields[i].Type = e
	}
	switch t := t.(type) {
	case *arrow.ListType:
		if !same {
			return arrow.ListOfField(fields[0]), nil
		}
	case *arrow.LargeListType:
		if !same {
			return arrow.LargeListOfField(fields[0]), nil
		}
	case *arrow.FixedSizeListType:
		if !same {
			return arrow.FixedSizeListOfField(t.Len(), fields[0]), nil
		}
	case *arrow.StructType:
		if !same {
			return arrow.StructOf(fields...), nil
		}
	}
	return t, nil
}

// taken returns the type of values that are written out where others refer to them.
func taken(values arrow.DataType, of string) (arrow.DataType, error) {
	t, err := plainType(values)
	if err != nil {
		return nil, err
	}
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING:
		return arrow.BinaryTypes.LargeString, nil
	case arrow.BINARY, arrow.LARGE_BINARY:
		return arrow.BinaryTypes.LargeBinary, nil
	case arrow.BOOL:
		return t, nil
	}
	if _, fixed := t.(arrow.FixedWidthDataType); !fixed || arrow.IsNested(t.ID()) {
		return nil, fmt.Errorf("%s %v: cast it to what it holds", of, t)
	}
	return t, nil
}

// plain returns an array as the type that plainType has for it. The caller releases it.
func plain(a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	if arrow.TypeEqual(a.DataType(), to) {
		a.Retain()
		return a, nil
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return take(a, a.Dictionary(), to, a.GetValueIndex)
	case *array.RunEndEncoded:
		return take(a, a.Values(), to, runsOf(a))
	case *array.StringView, *array.BinaryView:
		text := textAt(a)
		return textsOf(a.Len(), to, func(i int) (string, bool) { return text(i), a.IsValid(i) }), nil
	case array.ListLike:
		return lists(a, to)
	case *array.Struct:
		return records(a, to)
	}
	return nil, fmt.Errorf("%v where %v is expected: the batches of a stream differ", a.DataType(), to)
}

// runsOf returns the place of a row's value among those of runs.
func runsOf(a *array.RunEndEncoded) func(i int) int {
	at, end := a.GetPhysicalOffset(), a.RunEndsArr()
	ends := func(k int) int {
		switch e := end.(type) {
		case *array.Int16:
			return int(e.Value(k))
		case *array.Int32:
			return int(e.Value(k))
		case *array.Int64:
			return int(e.Value(k))
		}
		return 0
	}
	return func(i int) int { // rows are asked for in order
		for at < end.Len()-1 && ends(at) <= i+a.Offset() {
			at++
		}
		return at
	}
}

// take returns the value that each row of a refers to.
func take(a, values arrow.Array, to arrow.DataType, index func(i int) int) (arrow.Array, error) {
	place := func(i int) int { // -1: no value
		if a.IsNull(i) && a.DataType().ID() == arrow.DICTIONARY {
			return -1
		}
		if k := index(i); k >= 0 && k < values.Len() && values.IsValid(k) {
			return k
		}
		return -1
	}
	if text := textAt(values); text != nil {
		return textsOf(a.Len(), to, func(i int) (string, bool) {
			k := place(i)
			if k < 0 {
				return "", false
			}
			return text(k), true
		}), nil
	}
	if b, ok := values.(*array.Boolean); ok {
		made := array.NewBooleanBuilder(memory.DefaultAllocator)
		defer made.Release()
		for i := range a.Len() {
			if k := place(i); k < 0 {
				made.AppendNull()
			} else {
				made.Append(b.Value(k))
			}
		}
		return made.NewArray(), nil
	}
	return fixed(values, a.Len(), to, place)
}

// textAt returns what has the texts of an array; nil for an array of others.
func textAt(a arrow.Array) func(k int) string {
	switch a := a.(type) {
	case *array.String:
		return a.Value
	case *array.LargeString:
		return a.Value
	case *array.Binary:
		return a.ValueString
	case *array.LargeBinary:
		return a.ValueString
	case *array.StringView:
		return a.Value
	case *array.BinaryView:
		return func(k int) string { return string(a.Value(k)) }
	}
	return nil
}

// textsOf returns n texts, of LargeString or LargeBinary.
func textsOf(n int, to arrow.DataType, at func(i int) (text string, there bool)) arrow.Array {
	made := array.NewBinaryBuilder(memory.DefaultAllocator, to.(arrow.BinaryDataType))
	defer made.Release()
	made.Reserve(n)
	for i := range n {
		if text, there := at(i); there {
			made.AppendString(text)
		} else {
			made.AppendNull()
		}
	}
	return made.NewArray()
}

// fixed returns n values of whole bytes, each that of values at a place; -1: none.
func fixed(values arrow.Array, n int, to arrow.DataType, place func(i int) int) (arrow.Array, error) {
	size := to.(arrow.FixedWidthDataType).BitWidth() / 8
	buffers := values.Data().Buffers()
	if len(buffers) < 2 || size == 0 {
		return nil, fmt.Errorf("%v, whose values are not in bytes", to)
	}
	var from []byte
	if buffers[1] != nil {
		from = buffers[1].Bytes()[values.Data().Offset()*size:]
	}
	data, valid, nulls := make([]byte, n*size), make([]byte, bitutil.BytesForBits(int64(n))), n
	for i := range n {
		if k := place(i); k >= 0 {
			copy(data[i*size:(i+1)*size], from[k*size:])
			bitutil.SetBit(valid, i)
			nulls--
		}
	}
	return arrayOf(to, n, nulls, valid, data), nil
}

// arrayOf returns an array of these bytes and bits.
func arrayOf(t arrow.DataType, n, nulls int, valid, data []byte, children ...arrow.ArrayData) arrow.Array {
	buffers := []*memory.Buffer{nil}
	if nulls > 0 {
		buffers[0] = memory.NewBufferBytes(valid)
	}
	if data != nil {
		buffers = append(buffers, memory.NewBufferBytes(data))
	}
	return ofBuffers(t, int64(n), nulls, children, buffers...)
}

// lists returns lists whose elements are plain.
func lists(a array.ListLike, to arrow.DataType) (arrow.Array, error) {
	n, from, end := a.Len(), int64(0), int64(0)
	if n > 0 {
		from, _ = a.ValueOffsets(0)
		_, end = a.ValueOffsets(n - 1)
	}
	rows := array.NewSlice(a.ListValues(), from, end)
	defer rows.Release()
	elements, err := plain(rows, to.(arrow.ListLikeType).Elem())
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	valid := validOf(a)
	if to.ID() == arrow.FIXED_SIZE_LIST {
		return arrayOf(to, n, a.NullN(), valid, nil, elements.Data()), nil
	}
	offsets := make([]int64, n+1)
	for i := range n {
		_, hi := a.ValueOffsets(i)
		offsets[i+1] = hi - from
	}
	if to.ID() == arrow.LARGE_LIST {
		return arrayOf(to, n, a.NullN(), valid, arrow.Int64Traits.CastToBytes(offsets), elements.Data()), nil
	}
	narrow := make([]int32, n+1)
	for i, o := range offsets {
		narrow[i] = int32(o)
	}
	return arrayOf(to, n, a.NullN(), valid, arrow.Int32Traits.CastToBytes(narrow), elements.Data()), nil
}

// records returns records whose fields are plain.
func records(a *array.Struct, to arrow.DataType) (arrow.Array, error) {
	var children []arrow.ArrayData
	for k := range a.NumField() {
		made, err := plain(a.Field(k), to.(*arrow.StructType).Field(k).Type)
		if err != nil {
			return nil, err
		}
		defer made.Release()
		children = append(children, made.Data())
	}
	return arrayOf(to, a.Len(), a.NullN(), validOf(a), nil, children...), nil
}

// validOf returns a bit for each row: whether there is a value.
func validOf(a arrow.Array) []byte {
	valid := make([]byte, bitutil.BytesForBits(int64(a.Len())))
	for i := range a.Len() {
		if a.IsValid(i) {
			bitutil.SetBit(valid, i)
		}
	}
	return valid
}

// widthOf returns about how many bytes a row of an array takes when it is written.
func widthOf(a arrow.Array) float64 {
	rows := float64(max(a.Len(), 1))
	switch a := a.(type) {
	case *array.Dictionary:
		return widthOf(a.Dictionary())
	case *array.RunEndEncoded:
		return widthOf(a.Values())
	case *array.Struct:
		all := 1.
		for k := range a.NumField() {
			all += widthOf(a.Field(k))
		}
		return all
	case array.ListLike:
		if a.Len() == 0 {
			return 8
		}
		from, _ := a.ValueOffsets(0)
		_, end := a.ValueOffsets(a.Len() - 1)
		return 8 + float64(end-from)/rows*widthOf(a.ListValues())
	}
	if text := textAt(a); text != nil {
		return 8 + meanLength(a.Len(), text)
	}
	if t, fixed := a.DataType().(arrow.FixedWidthDataType); fixed {
		return float64(t.BitWidth()+7) / 8
	}
	return 8
}

// meanLength returns the mean length of some texts of n, evenly spaced.
func meanLength(n int, text func(i int) string) float64 {
	const looks = 1 << 10
	all, seen := 0, 0
	for i := 0; i < n; i += max(1, n/looks) {
		all, seen = all+len(text(i)), seen+1
	}
	return float64(all) / float64(max(seen, 1))
}
