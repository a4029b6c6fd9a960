package array

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// file returns a version 1 file with the given header text and elements.
func file(header string, elements []byte) []byte {
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), elements...)
}

func header(descr, fortran, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n", descr, fortran, shape)
}

// read reads a whole array without a limit: its elements as bytes, or strings.
func read(r io.Reader) (h Header, elements []byte, texts []string, err error) {
	if h, err = ReadHeader(r); err != nil {
		return h, nil, nil, err
	}
	if h.Kind == Text || h.Kind == Bytes {
		texts, err = ReadStrings(r, h, nil)
		return h, nil, texts, err
	}
	var b bytes.Buffer
	err = Stream(context.Background(), &b, r, h, nil)
	return h, b.Bytes(), nil, err
}

// ints reads a whole array of integers.
func ints(file []byte) ([]int64, error) {
	r := bytes.NewReader(file)
	h, err := ReadHeader(r)
	if err != nil {
		return nil, err
	}
	return ReadInts(r, h, nil)
}

func TestReadGivesEveryTypeOfNumber(t *testing.T) {
	for _, v := range []any{
		[]int8{-1, 2}, []uint8{1, 255}, []int16{-300, 4}, []uint16{1, 65535}, []int32{1 << 30, -5, 6},
		[]uint32{math.MaxUint32},
		[]int64{math.MinInt64, 7}, []uint64{1, 2}, []float32{1.5, -2}, []float64{math.Pi},
	} {
		h, elements, _, err := read(bytes.NewReader(expect.NPY(v)))
		expect.Ensure(t, err == nil, "%T: %v", v, err)
		var want bytes.Buffer
		_ = binary.Write(&want, binary.LittleEndian, v)
		expect.That(t,
			h.DType.String() == strings.TrimPrefix(fmt.Sprintf("%T", v), "[]") && bytes.Equal(elements, want.Bytes()),
			"%T: got %v % x, want % x", v, h.DType, elements, want.Bytes())
	}
}

func TestOrderAndByteOrderDoNotMatter(t *testing.T) {
	// The array [[1 2 3] [4 5 6]] four times.
	for _, c := range []struct {
		name, descr, fortran string
		values               []int16
		order                binary.ByteOrder
	}{
		{"rows, little", "<i2", "False", []int16{1, 2, 3, 4, 5, 6}, binary.LittleEndian},
		{"rows, big", ">i2", "False", []int16{1, 2, 3, 4, 5, 6}, binary.BigEndian},
		{"columns, little", "<i2", "True", []int16{1, 4, 2, 5, 3, 6}, binary.LittleEndian},
		{"columns, big", ">i2", "True", []int16{1, 4, 2, 5, 3, 6}, binary.BigEndian},
	} {
		t.Run(c.name, func(t *testing.T) {
			var elements bytes.Buffer
			_ = binary.Write(&elements, c.order, c.values)
			f := file(header(c.descr, c.fortran, "(2, 3)"), elements.Bytes())
			if v, err := ints(f); err != nil || !slices.Equal(v, []int64{1, 2, 3, 4, 5, 6}) {
				t.Errorf("ReadInts: %v, %v", v, err)
			}
			_, b, _, err := read(bytes.NewReader(f))
			want := []byte{1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0}
			expect.That(t, err == nil && bytes.Equal(b, want), "Stream: % x, %v; want % x", b, err, want)
		})
	}
}

func TestTransposeInThreeDimensions(t *testing.T) {
	// numpy: arange(24).reshape(2,3,4), saved column-major.
	var cols []byte
	for k := range 4 {
		for j := range 3 {
			for i := range 2 {
				cols = append(cols, byte(12*i+4*j+k))
			}
		}
	}
	_, rows, _, err := read(bytes.NewReader(file(header("|u1", "True", "(2, 3, 4)"), cols)))
	expect.OK(t, err)
	for i, b := range rows {
		expect.Ensure(t, int(b) == i, "element %d is %d", i, b)
	}
}

func TestStrings(t *testing.T) {
	text := func(s string, width int) []byte {
		b := make([]byte, 4*width)
		for i, r := range []rune(s) {
			binary.LittleEndian.PutUint32(b[4*i:], uint32(r))
		}
		return b
	}
	_, _, got, err := read(bytes.NewReader(file(header("<U3", "False", "(3,)"),
		slices.Concat(text("中a", 3), text("", 3), text("xyz", 3)))))
	expect.That(t, err == nil && slices.Equal(got, []string{"中a", "", "xyz"}), "%q, %v", got, err)
	_, _, got, err = read(bytes.NewReader(file(header("|S2", "False", "(2,)"), []byte("ab\xff\x00"))))
	expect.That(t, err == nil && slices.Equal(got, []string{"ab", "\uFFFD"}), "%q, %v", got, err)
}

// TestTextsComeOneAfterTheOther, until bytes that are not UTF-8, or the end of the file.
func TestTextsComeOneAfterTheOther(t *testing.T) {
	for _, c := range []struct {
		descr, elements string
		want            []string
		err             error
	}{
		{"<U2", "\x2d\x4e\x00\x00a\x00\x00\x00x\x00\x00\x00\x00\x00\x00\x00", []string{"中a", "x"}, nil},
		{">U1", "\x00\x00\x00a\x00\x00\x4e\x2d", []string{"a", "中"}, nil},
		{"|S3", "ab\x00\xc3\xa9\x00", []string{"ab", "é"}, nil},
		{"|S2", "ab\xff\x00", []string{"ab"}, graph.ErrText},
		{"<U1", "a\x00\x00\x00\x00\xd8\x00\x00", []string{"a"}, graph.ErrText},
		{"<U1", "a\x00\x00\x00b\x00", []string{"a"}, io.ErrUnexpectedEOF},
		{"<U0", "", nil, ErrType},
		{"<i4", "12345678", nil, ErrType},
	} {
		r := bytes.NewReader(file(header(c.descr, "False", "(2,)"), []byte(c.elements)))
		x, err := NewTexts(r, expect.Must(ReadHeader(r))(t))
		var got []string
		for err == nil && len(got) < 2 {
			var s string
			if s, err = x.Next(); err == nil {
				got = append(got, s)
			}
		}
		expect.That(t, slices.Equal(got, c.want) && errors.Is(err, c.err), "%s: %q, %v", c.descr, got, err)
	}
}

func TestHeadersAreReadStrictly(t *testing.T) {
	good := []string{
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
		`{"shape":(1L,),"descr":"<f4","fortran_order":False}`,
		"{ 'descr' :'<f4' , 'fortran_order' : True, 'shape': ( 1 , ) }\n",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
	}
	for _, h := range good {
		_, _, _, err := read(bytes.NewReader(file(h, make([]byte, 4))))
		expect.That(t, err == nil, "%s: %v", h, err)
	}
	for _, c := range []struct {
		header string
		is     error
	}{
		{"", ErrFormat},
		{"{}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000, 4)}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", ErrFormat},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 'y'}", ErrFormat},
		{"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", ErrFormat},
		{"{'descr': '', 'fortran_order': False, 'shape': (1,)}", ErrFormat},
		{"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", ErrObject},
		{"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", ErrType},
		{"{'descr': '<M8[W]', 'fortran_order': False, 'shape': (1,)}", ErrType},
		{"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", io.ErrUnexpectedEOF},
		{"{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", ErrFormat}, // the bytes are 7
	} {
		_, _, _, err := read(bytes.NewReader(file(c.header, []byte{7, 7, 7, 7})))
		expect.That(t, errors.Is(err, c.is), "%s: got %v, want %v", c.header, err, c.is)
	}
}

// A header may be padded, but not without end.
func TestHeadersAreReadUpToTheirLimit(t *testing.T) {
	for size, good := range map[int]bool{maxHeader: true, maxHeader + 1: false} {
		text := header("<f4", "False", "(1,)")
		b := binary.LittleEndian.AppendUint32(append([]byte(magic), 2, 0), uint32(size))
		b = append(append(b, text...), strings.Repeat(" ", size-len(text))...)
		_, _, _, err := read(bytes.NewReader(append(b, 0, 0, 0, 0)))
		expect.That(t, (err == nil) == good && (good || errors.Is(err, ErrFormat)), "a header of %d bytes: %v", size,
			err)
	}
}

func TestIntsRefuseWhatIsNoInteger(t *testing.T) {
	for _, v := range []any{[]float64{1, 1.5}, []float64{math.NaN()}, []float64{1e300}, []float32{float32(math.Inf(1))},
		[]uint64{1, 1 << 63}} {
		got, err := ints(expect.NPY(v))
		expect.That(t, err != nil && strings.Contains(err.Error(), "row "), "%v became %v, %v", v, got, err)
	}
}

// pieces hands on a file in pieces of odd lengths.
type pieces struct {
	file []byte
	at   int64
}

// From implements source.Blocks.
func (p *pieces) From(at int64) ([]byte, error) {
	if at < p.at || at >= int64(len(p.file)) {
		return nil, io.ErrUnexpectedEOF
	}
	p.at = at
	return p.file[at:min(int64(len(p.file)), (at/37+1)*37)], nil
}

// TestElementsMayComeInPieces: whatever their borders, also of another byte order, and cut short.
func TestElementsMayComeInPieces(t *testing.T) {
	for _, order := range []string{"<", ">"} {
		text := file(header(order+"i4", "False", "(100,)"), nil)
		h := expect.Must(ReadHeader(bytes.NewReader(text)))(t)
		first := int64(len(text))
		for i := range uint32(100) {
			if order == "<" {
				text = binary.LittleEndian.AppendUint32(text, i)
			} else {
				text = binary.BigEndian.AppendUint32(text, i)
			}
		}
		r, err := NewBlocks(&pieces{file: text}, first, h)
		if err == nil {
			err = r.Skip(3)
		}
		for want := int64(3); err == nil && want < 100; {
			var v []int64
			v, err = r.Ints(1 + want%13)
			for _, x := range v {
				expect.Ensure(t, x == want, "%s: %d, not %d", order, x, want)
				want++
			}
		}
		v, end := r.Ints(1)
		expect.That(t, err == nil && end == nil && len(v) == 0, "%s: %v; behind the end %v, %v", order, err, v, end)
		if r, err = NewBlocks(&pieces{file: text[:len(text)-1]}, first, h); err == nil {
			_, err = r.Ints(100)
		}
		expect.Is(t, err, io.ErrUnexpectedEOF, "%s, cut short", order)
	}
}

// FuzzRead: no input panics, or makes more memory than a multiple of what there is of it.
func FuzzRead(f *testing.F) {
	f.Add(file(header("<f4", "False", "(2, 2)"), make([]byte, 16)))
	f.Add(file(header(">i8", "True", "(2, 2)"), make([]byte, 32)))
	f.Add(file(header("<U2", "False", "(2,)"), make([]byte, 16)))
	f.Add(file(header("|S0", "False", "(99999999999,)"), nil))
	f.Add(file(header("<i8", "False", "(999999999999,)"), make([]byte, 100)))
	f.Add(file(header("|b1", "True", "(0, 5)"), nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if h, elements, _, err := read(bytes.NewReader(b)); err == nil {
			_, _ = ints(b)
			expect.Ensure(t, h.DType == unified.Invalid || int64(len(elements)) == h.Elements()*h.DType.Size(),
				"%v has %d bytes", &h, len(elements))
		}
		runtime.ReadMemStats(&after)
		made := after.TotalAlloc - before.TotalAlloc
		expect.Ensure(t, made <= 4<<20+64*uint64(len(b)), "%d bytes of input made %d bytes of memory", len(b), made)
	})
}

// A reader of a mapped array asks the system for what comes next; one that reads little, here and there, does not: it
// would read much of the file for nothing.
func TestLittleThatIsReadIsNotReadAhead(t *testing.T) {
	want := []int64{0, 1, 2, 3, 4, 5, 6, 7}
	for _, few := range []bool{false, true} {
		h := Header{DType: unified.Int64, Kind: Number, Width: 8, Shape: []int64{8}}
		h.elements = 8
		r := expect.Must(NewMapped(unified.FromSlice(want).Bytes(), h))(t)
		if few {
			r.Few()
		}
		got, err := r.Ints(2)
		expect.That(t, err == nil && slices.Equal(got, want[:2]) && (r.asked == 0) == few,
			"few %t: %v, %d bytes were asked for, %v", few, got, r.asked, err)
	}
}
