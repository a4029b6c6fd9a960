package arrayfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

func counting(n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// newFile makes an empty file.
func newFile(t *testing.T) (f *os.File, path string) {
	path = filepath.Join(t.TempDir(), "x.arrow")
	f = expect.Must(os.Create(path))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f, path
}

// shared has errors that name the file.
func shared(d Direct) *Shared {
	return &Shared{ChunkBytes: 4096, Direct: d, Wrote: func(int64) {},
		WriteError: func(path string, err error, _ int64) error { return fmt.Errorf("%s: %w", path, err) },
		Misuse:     func(path, _ string, _ int64, err error) error { return fmt.Errorf("%s: %w", path, err) }}
}

// fileOf builds a whole file of an array.
func fileOf(l Layout, body []byte) []byte {
	return append(append(l.Head(), body...), l.Tail()...)
}

// arrayCases are arrays of every dtype, every rank, and lengths on both sides of each border.
func arrayCases() []Layout {
	var list []Layout
	for _, d := range []unified.DType{unified.Uint32, unified.Int8, unified.Uint8, unified.Int16,
		unified.Uint16, unified.Int32, unified.Int64, unified.Uint64, unified.Float16, unified.BFloat16,
		unified.Float32, unified.Float64} {
		for _, shape := range [][]int64{nil, {1}, {3}, {2, 5}, {2, 1, 3}} {
			for _, rows := range []int64{0, 1, 9} {
				list = append(list, NewLayout(Type{Name: "x", DType: d, Shape: shape}, rows, 0))
			}
		}
	}
	for _, rows := range []int64{largeArray/4 - 1, largeArray / 4, largeArray/4 + 1} {
		list = append(list, NewLayout(Type{Name: "long", DType: unified.Float32}, rows, 0))
	}
	for rows := range int64(20) { // lengths that end at each place before the next border
		list = append(list, NewLayout(Type{Name: "a rather long name with ünïcode 名", DType: unified.Uint8},
			57+rows, 0))
	}
	return list
}

func (l Layout) String() string {
	return fmt.Sprintf("%s: %d x %v%v, strings %t", l.Name, l.Rows, l.DType, l.Shape, l.Strings)
}

func TestWalkFindsWhatWasWritten(t *testing.T) {
	for _, l := range arrayCases() {
		file := fileOf(l, counting(l.Bytes))
		got, err := Walk(file)
		expect.Ensure(t, err == nil, "%v: %v", l, err)
		expect.Ensure(t, got.Equal(l.Type) && got.Rows == l.Rows && got.BodyOffset == l.BodyOffset &&
			got.Bytes == l.Bytes, "%v: found %v at %d, %d bytes; written at %d, %d bytes", l, got, got.BodyOffset,
			got.Bytes, l.BodyOffset, l.Bytes)
		align := int64(128)
		if l.Bytes >= 1<<20 {
			align = 65536
		}
		expect.Ensure(t, l.BodyOffset%align == 0 && l.BodyOffset < 1024+align, "%v: the body of %d bytes begins at %d",
			l, l.Bytes, l.BodyOffset)
	}
}

func TestArrowReadsWhatWasWritten(t *testing.T) {
	for _, l := range arrayCases() {
		body := counting(l.Bytes)
		r, err := ipc.NewFileReader(bytes.NewReader(fileOf(l, body)))
		expect.Ensure(t, err == nil, "%v: %v", l, err)
		expect.Ensure(t, r.NumRecords() == 1 && r.Schema().NumFields() == 1, "%v: %d records, %v", l, r.NumRecords(),
			r.Schema())
		field := r.Schema().Field(0)
		expect.Ensure(t, field.Name == l.Name && !field.Nullable && field.Type.String() == arrowType(l.Type),
			"%v: Arrow sees %v", l, field)
		bf, _ := field.Metadata.GetValue(dtypeKey)
		expect.Ensure(t, (bf == "bfloat16") == (l.DType == unified.BFloat16), "%v: metadata %v", l, field.Metadata)
		rec, err := r.Record(0)
		expect.Ensure(t, err == nil, "%v: %v", l, err)
		data := rec.Column(0).Data()
		for range l.Shape {
			data = data.Children()[0]
		}
		var got []byte
		if b := data.Buffers()[1]; b != nil {
			got = b.Bytes()
		}
		expect.Ensure(t, rec.NumRows() == l.Rows && rec.Column(0).NullN() == 0 && bytes.Equal(got, body),
			"%v: Arrow reads %d rows, %d bytes", l, rec.NumRows(), len(got))
		r.Close()
	}
}

// arrowType is how Arrow prints the type that an array should have.
func arrowType(a Type) string {
	d := a.DType
	if d == unified.BFloat16 {
		d = unified.Uint16
	}
	s := map[unified.DType]arrow.DataType{
		unified.Int8: arrow.PrimitiveTypes.Int8, unified.Uint8: arrow.PrimitiveTypes.Uint8,
		unified.Int16:  arrow.PrimitiveTypes.Int16,
		unified.Uint16: arrow.PrimitiveTypes.Uint16, unified.Int32: arrow.PrimitiveTypes.Int32,
		unified.Int64:  arrow.PrimitiveTypes.Int64,
		unified.Uint32: arrow.PrimitiveTypes.Uint32,
		unified.Uint64: arrow.PrimitiveTypes.Uint64, unified.Float16: arrow.FixedWidthTypes.Float16,
		unified.Float32: arrow.PrimitiveTypes.Float32, unified.Float64: arrow.PrimitiveTypes.Float64,
	}[d].String()
	for i := len(a.Shape) - 1; i >= 0; i-- {
		s = fmt.Sprintf("fixed_size_list<item: %s>[%d]", s, a.Shape[i])
	}
	return s
}

func TestArrowReadsStrings(t *testing.T) {
	for _, want := range [][]string{{}, {""}, {"a", "", "héllo", "名"}, {"", "", ""}} {
		f, path := newFile(t)
		s, err := shared(Direct{Dataset: 1 << 60}).Strings(f, path, "name", int64(len(want)))
		expect.OK(t, err)
		for _, v := range want {
			expect.OK(t, s.Write(v))
		}
		_, err = s.Close()
		expect.OK(t, err)
		file := expect.Must(os.ReadFile(path))(t)
		r := expect.Must(ipc.NewFileReader(bytes.NewReader(file)))(t)
		rec := expect.Must(r.Record(0))(t)
		col := rec.Column(0).(*array.LargeString)
		for i, v := range want {
			expect.Ensure(t, col.Value(i) == v, "%q: string %d is %q", want, i, col.Value(i))
		}
		expect.Ensure(t, col.Len() == len(want), "%q: %d strings", want, col.Len())
	}
}

// Head and footer of an Arrow file say some numbers twice: they must agree, whichever is larger.
func TestWalkRefusesNumbersThatDisagree(t *testing.T) {
	for _, l := range []Layout{NewLayout(Type{Name: "x", DType: unified.Int16, Shape: []int64{3}}, 1001, 0),
		NewLayout(Type{Name: "s", Strings: true}, 1001, 54321)} {
		head, tail := l.Head(), l.Tail()
		for _, n := range []int64{l.Rows, l.bodyLength()} {
			found := 0
			for _, part := range [][]byte{head, tail} {
				for i := 0; i+8 <= len(part); i++ {
					if binary.LittleEndian.Uint64(part[i:]) != uint64(n) {
						continue
					}
					found++
					for _, d := range []int64{-8, -1, 1, 8} {
						binary.LittleEndian.PutUint64(part[i:], uint64(n+d))
						file := slices.Concat(head, make([]byte, l.Bytes), tail)
						expect.Is(t, expect.Err(Walk(file)), ErrCorrupt, "%v: %d at %d of %d is %d", l, n, i, len(part),
							n+d)
					}
					binary.LittleEndian.PutUint64(part[i:], uint64(n))
				}
			}
			expect.That(t, found != 0, "%v: nothing says %d", l, n)
		}
	}
}

// A record batch whose stated length exceeds the file is refused, and the error says how long it can be at most.
func TestWalkSaysWhatIsThere(t *testing.T) {
	l := NewLayout(Type{Name: "x", DType: unified.Int8}, 1008, 0)
	tail := l.Tail()
	at := bytes.LastIndex(tail, binary.LittleEndian.AppendUint64(nil, uint64(l.bodyLength())))
	expect.Ensure(t, at >= 0, "the footer does not say how long the body is")
	binary.LittleEndian.PutUint64(tail[at:], 1<<40)
	file := slices.Concat(l.Head(), make([]byte, l.bodyLength()), tail)
	foot := int64(binary.LittleEndian.Uint32(file[len(file)-FooterSuffix:]))
	_, err := Walk(file)
	want := fmt.Sprint(" + ", int64(len(file)-FooterSuffix)-foot-l.BodyOffset)
	expect.That(t, errors.Is(err, ErrCorrupt) && strings.HasSuffix(err.Error(), want), "got %v, want an end of%s", err,
		want)
}

// checkWalk walks and checks that what is accepted lies within the file.
func checkWalk(t testing.TB, file []byte) error {
	t.Helper()
	l, err := Walk(file)
	if err != nil {
		expect.Ensure(t, errors.Is(err, ErrCorrupt), "not ErrCorrupt: %v", err)
		return err
	}
	expect.Ensure(t, l.Rows >= 0 && l.Bytes >= 0 && l.BodyOffset >= 0 && l.BodyOffset+l.Bytes <= int64(len(file)) &&
		(l.Strings || l.Rows*l.RowBytes() == l.Bytes), "accepted %v: %d bytes at %d of %d", l, l.Bytes, l.BodyOffset,
		len(file))
	return nil
}

func FuzzWalk(f *testing.F) {
	f.Add(fileOf(NewLayout(Type{Name: "x", DType: unified.BFloat16, Shape: []int64{2, 3}}, 4, 0), make([]byte, 48)))
	f.Add(fileOf(NewLayout(Type{Name: "s", Strings: true}, 3, 11), make([]byte, 75)))
	f.Add(fileOf(NewLayout(Type{Name: "y", DType: unified.Int8}, 0, 0), nil))
	f.Fuzz(func(t *testing.T, file []byte) { _ = checkWalk(t, file) })
}

func TestAMessageThatLiesElsewhereIsNamed(t *testing.T) {
	for _, pos := range []int64{-8, 4, 16, 1 << 40} {
		want := fmt.Sprintf("an Arrow message at %d of 16", pos)
		_, err := readMessage(make([]byte, 16), pos, 16)
		expect.That(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
}

// Arrow's writers compress record batches where they are asked to, and what is mapped must not be.
func TestCompressedBatchesAreNamed(t *testing.T) {
	fields := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int32}}, nil)
	values := array.NewInt32Builder(memory.DefaultAllocator)
	values.AppendValues(make([]int32, 1000), nil)
	column := values.NewArray()
	path := filepath.Join(t.TempDir(), "x.arrow")
	f := expect.Must(os.Create(path))(t)
	w := expect.Must(ipc.NewFileWriter(f, ipc.WithSchema(fields), ipc.WithZstd()))(t)
	expect.OK(t, w.Write(array.NewRecord(fields, []arrow.Array{column}, 1000)), w.Close(), f.Close())
	file := expect.Must(os.ReadFile(path))(t)
	err := checkWalk(t, file)
	expect.That(t, err != nil && strings.HasSuffix(err.Error(), "record batch is compressed"), "%v", err)
}

// TestColumnsHaveAsManyDimensionsAsTensors, and no more.
func TestColumnsHaveAsManyDimensionsAsTensors(t *testing.T) {
	for dims := range unified.MaxRank + 1 {
		l := NewLayout(Type{Name: "x", DType: unified.Int8, Shape: slices.Repeat([]int64{1}, dims)}, 3, 0)
		err := checkWalk(t, fileOf(l, counting(l.Bytes)))
		expect.That(t, (dims < unified.MaxRank) == (err == nil), "rows of %d dimensions: %v", dims, err)
	}
}

func TestAFileThatCannotBeWrittenIsNamed(t *testing.T) {
	_, path := newFile(t)
	f, err := os.Open(path) // for reading
	expect.OK(t, err)
	defer f.Close()
	_, err = shared(Direct{Dataset: 1 << 60}).Writer(f, path, Type{Name: "x", DType: unified.Int8}, 3)
	expect.That(t, err != nil && strings.HasPrefix(err.Error(), path+": "), "%v", err)
}

func TestAnErrorOfWritingPastThePageCacheNamesTheFile(t *testing.T) {
	f, path := newFile(t)
	w, err := shared(Direct{Block: 4096}).Writer(f, path, Type{Name: "a", DType: unified.Int32}, 1<<20)
	expect.OK(t, err)
	if w.f.behind == nil {
		t.Skip("the file system refuses")
	}
	expect.OK(t, f.Close())
	_, err = w.Write(make([]byte, 4<<20))
	_, closed := w.Close()
	err = errors.Join(err, closed)
	expect.That(t, errors.Is(err, os.ErrClosed) && strings.Contains(err.Error(), path), "%v", err)
}

// Each such array takes memory: of many that are open at a time, the most go through the cache.
func TestFewArraysAtATimePassThePageCache(t *testing.T) {
	s, direct := shared(Direct{Block: 4096}), 0
	for i := range 2 * mostDirect {
		f, path := newFile(t)
		w, err := s.Writer(f, path, Type{Name: "a", DType: unified.Int32}, 1)
		expect.OK(t, err)
		if w.f.behind != nil {
			direct++
		}
		if i == 0 { // its place is free again
			_, err = w.Write(make([]byte, 4))
			expect.OK(t, err)
			_, err = w.Close()
			expect.OK(t, err)
		}
	}
	expect.That(t, direct == 0 || direct == mostDirect+1, "%d", direct)
}
