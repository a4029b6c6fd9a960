package formats

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

	"github.com/khop-gnn/khop/unified"
)

// fileOf builds a whole file of an array.
func fileOf(l layout, body []byte) []byte {
	return append(append(l.head(), body...), l.tail()...)
}

// arrayCases are arrays of every dtype, every rank, and lengths on both sides of each border.
func arrayCases() []layout {
	var list []layout
	for _, d := range append([]unified.DType{unified.Uint32}, allDTypes...) {
		for _, shape := range [][]int64{nil, {1}, {3}, {2, 5}, {2, 1, 3}} {
			for _, rows := range []int64{0, 1, 9} {
				list = append(list, newLayout(arrayType{name: "x", dtype: d, shape: shape}, rows, 0))
			}
		}
	}
	for _, rows := range []int64{largeArray/4 - 1, largeArray / 4, largeArray/4 + 1} {
		list = append(list, newLayout(arrayType{name: "long", dtype: unified.Float32}, rows, 0))
	}
	for rows := range int64(20) { // lengths that end at each place before the next border
		list = append(list, newLayout(arrayType{name: "a rather long name with ünïcode 名", dtype: unified.Uint8},
			57+rows, 0))
	}
	return list
}

func (l layout) String() string {
	return fmt.Sprintf("%s: %d x %v%v, strings %t", l.name, l.rows, l.dtype, l.shape, l.strings)
}

func TestWalkFindsWhatWasWritten(t *testing.T) {
	for _, l := range arrayCases() {
		file := fileOf(l, counting(l.bytes))
		got, err := walk(file)
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		if !got.equal(l.arrayType) || got.rows != l.rows || got.bodyOffset != l.bodyOffset || got.bytes != l.bytes {
			t.Fatalf("%v: found %v at %d, %d bytes; written at %d, %d bytes", l, got, got.bodyOffset, got.bytes,
				l.bodyOffset, l.bytes)
		}
		align := int64(128)
		if l.bytes >= 1<<20 {
			align = 65536
		}
		if l.bodyOffset%align != 0 || l.bodyOffset >= 1024+align {
			t.Fatalf("%v: the body of %d bytes begins at %d", l, l.bytes, l.bodyOffset)
		}
	}
}

func TestArrowReadsWhatWasWritten(t *testing.T) {
	for _, l := range arrayCases() {
		body := counting(l.bytes)
		r, err := ipc.NewFileReader(bytes.NewReader(fileOf(l, body)))
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		if r.NumRecords() != 1 || r.Schema().NumFields() != 1 {
			t.Fatalf("%v: %d records, %v", l, r.NumRecords(), r.Schema())
		}
		field := r.Schema().Field(0)
		if field.Name != l.name || field.Nullable || field.Type.String() != arrowType(l.arrayType) {
			t.Fatalf("%v: Arrow sees %v", l, field)
		}
		if bf, _ := field.Metadata.GetValue(dtypeKey); (bf == "bfloat16") != (l.dtype == unified.BFloat16) {
			t.Fatalf("%v: metadata %v", l, field.Metadata)
		}
		rec, err := r.Record(0)
		if err != nil {
			t.Fatalf("%v: %v", l, err)
		}
		data := rec.Column(0).Data()
		for range l.shape {
			data = data.Children()[0]
		}
		var got []byte
		if b := data.Buffers()[1]; b != nil {
			got = b.Bytes()
		}
		if rec.NumRows() != l.rows || rec.Column(0).NullN() != 0 || !bytes.Equal(got, body) {
			t.Fatalf("%v: Arrow reads %d rows, %d bytes", l, rec.NumRows(), len(got))
		}
		r.Close()
	}
}

// arrowType is how Arrow prints the type that an array should have.
func arrowType(a arrayType) string {
	d := a.dtype
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
	for i := len(a.shape) - 1; i >= 0; i-- {
		s = fmt.Sprintf("fixed_size_list<item: %s>[%d]", s, a.shape[i])
	}
	return s
}

func TestArrowReadsStrings(t *testing.T) {
	for _, want := range [][]string{{}, {""}, {"a", "", "héllo", "名"}, {"", "", ""}} {
		dir := filepath.Join(scratchDir(t), "x.khop")
		w, err := Create(dir, WriterOptions{chunkBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.NodeStrings(0, "name", int64(len(want)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range want {
			if err := s.Write(v); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(dir, "nodes/n0/name.arrow"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := ipc.NewFileReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := r.Record(0)
		if err != nil {
			t.Fatal(err)
		}
		col := rec.Column(0).(*array.LargeString)
		for i, v := range want {
			if col.Value(i) != v {
				t.Fatalf("%q: string %d is %q", want, i, col.Value(i))
			}
		}
		if col.Len() != len(want) {
			t.Fatalf("%q: %d strings", want, col.Len())
		}
		if err := w.Abort(); err != nil {
			t.Fatal(err)
		}
	}
}

// Head and footer of an Arrow file say some numbers twice: they must agree, whichever is larger.
func TestWalkRefusesNumbersThatDisagree(t *testing.T) {
	for _, l := range []layout{newLayout(arrayType{name: "x", dtype: unified.Int16, shape: []int64{3}}, 1001, 0),
		newLayout(arrayType{name: "s", strings: true}, 1001, 54321)} {
		head, tail := l.head(), l.tail()
		for _, n := range []int64{l.rows, l.bodyLength()} {
			found := 0
			for _, part := range [][]byte{head, tail} {
				for i := 0; i+8 <= len(part); i++ {
					if binary.LittleEndian.Uint64(part[i:]) != uint64(n) {
						continue
					}
					found++
					for _, d := range []int64{-8, -1, 1, 8} {
						binary.LittleEndian.PutUint64(part[i:], uint64(n+d))
						file := slices.Concat(head, make([]byte, l.bytes), tail)
						if _, err := walk(file); !errors.Is(err, ErrCorrupt) {
							t.Errorf("%v: %d at %d of %d is %d: %v", l, n, i, len(part), n+d, err)
						}
					}
					binary.LittleEndian.PutUint64(part[i:], uint64(n))
				}
			}
			if found == 0 {
				t.Errorf("%v: nothing says %d", l, n)
			}
		}
	}
}

// A record batch that is said to be longer than the file is refused, and the error says how long it can be at most.
func TestWalkSaysWhatIsThere(t *testing.T) {
	l := newLayout(arrayType{name: "x", dtype: unified.Int8}, 1008, 0)
	tail := l.tail()
	at := bytes.LastIndex(tail, binary.LittleEndian.AppendUint64(nil, uint64(l.bodyLength())))
	if at < 0 {
		t.Fatal("the footer does not say how long the body is")
	}
	binary.LittleEndian.PutUint64(tail[at:], 1<<40)
	file := slices.Concat(l.head(), make([]byte, l.bodyLength()), tail)
	foot := int64(binary.LittleEndian.Uint32(file[len(file)-footerSuffix:]))
	_, err := walk(file)
	want := fmt.Sprint(" + ", int64(len(file)-footerSuffix)-foot-l.bodyOffset)
	if !errors.Is(err, ErrCorrupt) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want an end of%s", err, want)
	}
}

// checkWalk walks and checks that what is accepted lies within the file.
func checkWalk(t testing.TB, file []byte) error {
	t.Helper()
	l, err := walk(file)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("not ErrCorrupt: %v", err)
		}
		return err
	}
	if l.rows < 0 || l.bytes < 0 || l.bodyOffset < 0 || l.bodyOffset+l.bytes > int64(len(file)) || !l.strings &&
		l.rows*l.rowBytes() != l.bytes {
		t.Fatalf("accepted %v: %d bytes at %d of %d", l, l.bytes, l.bodyOffset, len(file))
	}
	return nil
}

func FuzzWalk(f *testing.F) {
	f.Add(fileOf(newLayout(arrayType{name: "x", dtype: unified.BFloat16, shape: []int64{2, 3}}, 4, 0),
		make([]byte, 48)))
	f.Add(fileOf(newLayout(arrayType{name: "s", strings: true}, 3, 11), make([]byte, 75)))
	f.Add(fileOf(newLayout(arrayType{name: "y", dtype: unified.Int8}, 0, 0), nil))
	f.Fuzz(func(t *testing.T, file []byte) { _ = checkWalk(t, file) })
}

func TestAMessageThatLiesElsewhereIsNamed(t *testing.T) {
	for _, pos := range []int64{-8, 4, 16, 1 << 40} {
		want := fmt.Sprintf("an Arrow message at %d of 16", pos)
		if _, err := readMessage(make([]byte, 16), pos, 16); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Arrow's writers compress record batches where they are asked to, and what is mapped must not be.
func TestCompressedBatchesAreNamed(t *testing.T) {
	fields := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int32}}, nil)
	values := array.NewInt32Builder(memory.DefaultAllocator)
	values.AppendValues(make([]int32, 1000), nil)
	column := values.NewArray()
	path := filepath.Join(scratchDir(t), "x.arrow")
	f, err := os.Create(path)
	must(t, err)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(fields), ipc.WithZstd())
	must(t, err)
	must(t, w.Write(array.NewRecord(fields, []arrow.Array{column}, 1000)), w.Close(), f.Close())
	file, err := os.ReadFile(path)
	must(t, err)
	if err := checkWalk(t, file); err == nil || !strings.HasSuffix(err.Error(), "record batch is compressed") {
		t.Errorf("%v", err)
	}
}

// TestColumnsHaveAsManyDimensionsAsTensors, and no more.
func TestColumnsHaveAsManyDimensionsAsTensors(t *testing.T) {
	for dims := range unified.MaxRank + 1 {
		l := newLayout(arrayType{name: "x", dtype: unified.Int8, shape: slices.Repeat([]int64{1}, dims)}, 3, 0)
		err := checkWalk(t, fileOf(l, counting(l.bytes)))
		if good := dims < unified.MaxRank; good != (err == nil) {
			t.Errorf("rows of %d dimensions: %v", dims, err)
		}
	}
}
