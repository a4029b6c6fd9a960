package unified

import (
	"errors"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

func TestDTypesHaveNamesAndSizes(t *testing.T) {
	sizes := map[string]int64{"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
		"uint64":  8,
		"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
	for d := Invalid + 1; d < numDTypes; d++ {
		back, err := ParseDType(d.String())
		if err != nil || back != d || d.Size() != sizes[d.String()] {
			t.Errorf("%v: parsed as %v, %v; %d bytes", d, back, err, d.Size())
		}
		delete(sizes, d.String())
	}
	expect.That(t, len(sizes) == 0, "missing: %v", sizes)
	for _, name := range []string{"", "invalid", "int128", "FLOAT32"} {
		d, err := ParseDType(name)
		expect.That(t, err != nil, "%q parsed as %v", name, d)
	}
}

func TestNewRefusesWhatDoesNotFit(t *testing.T) {
	data := make([]byte, 64)
	for name, c := range map[string]struct {
		dtype DType
		data  []byte
		shape []int64
	}{
		"no type":     {Invalid, data, []int64{1}},
		"unknown":     {200, data, []int64{1}},
		"no shape":    {Int8, data, nil},
		"rank 5":      {Int8, data, []int64{1, 1, 1, 1, 1}},
		"negative":    {Int8, data, []int64{-1}},
		"too long":    {Int64, data, []int64{9}},
		"overflow":    {Int64, data, []int64{1 << 62, 1 << 62}},
		"wraps to 0":  {Int64, data, []int64{1 << 61}},
		"not aligned": {Int32, data[1:], []int64{1}},
	} {
		x, err := New(c.dtype, c.data, c.shape...)
		expect.That(t, errors.Is(err, ErrShape) && !x.Valid(), "%s: %v, %v", name, x, err)
	}
}

// Who tries one type after the other pays for no text.
func TestAViewOfAnotherTypeCostsNoText(t *testing.T) {
	x := FromSlice(make([]float32, 6))
	n := testing.AllocsPerRun(100, func() { _, _ = View[int32](x) })
	expect.That(t, n <= 1, "%v allocations", n)
}

func TestTensorsAreViews(t *testing.T) {
	s := []float32{0, 1, 2, 3, 4, 5}
	x := expect.Must(FromSlice(s).Reshape(3, 2))(t)
	if x.Len() != 3 || x.Width() != 2 || x.RowBytes() != 8 || x.Rank() != 2 || !slices.Equal(x.Shape(), []int64{3, 2}) {
		t.Errorf("%v: %d rows of %d", x, x.Len(), x.Width())
	}
	rows := expect.Must(x.Rows(1, 3))(t)
	v, err := View[float32](rows)
	expect.That(t, err == nil && slices.Equal(v, []float32{2, 3, 4, 5}), "rows 1 and 2 are %v, %v", v, err)
	v[0] = 9
	expect.That(t, s[2] == 9, "a view was a copy")
	_, err = View[int32](x)
	want := "dtype does not fit: float32[3,2] host holds float32, not int32"
	expect.That(t, errors.Is(err, ErrShape) && err.Error() == want, "%v, want %q", err, want)
	for _, r := range [][2]int64{{-1, 1}, {2, 1}, {0, 4}} {
		expect.Is(t, expect.Err(x.Rows(r[0], r[1])), ErrShape, "rows %v", r)
	}
	expect.Is(t, expect.Err(x.Reshape(4, 2)), ErrShape, "6 elements reshaped to 8")
	expect.Is(t, expect.Err(x.Reshape(2, 2)), ErrShape, "6 elements reshaped to 4")
}

func TestEmptyTensors(t *testing.T) {
	x, err := New(Float32, nil, 0, 7)
	expect.That(t, err == nil && x.Valid() && x.Len() == 0 && x.Width() == 7, "%v, %v", x, err)
	if v, err := View[float32](x); err != nil || len(v) != 0 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := View[int64](FromSlice[int64](nil)); err != nil || len(v) != 0 {
		t.Errorf("%v, %v", v, err)
	}
	expect.That(t, !(Tensor{}).Valid() && (Tensor{}).Len() == 0, "the zero tensor is one")
}

func TestBufferGrowsByElements(t *testing.T) {
	var ledger pinned.Ledger
	b := Buffer{pinned.Buffer{Options: pinned.Options{Ledger: &ledger}}}
	v, err := Grow[int64](&b, 100, 0)
	if err != nil || len(v) < 100 {
		t.Fatal(len(v), err)
	}
	for i := range v {
		v[i] = int64(i)
	}
	n := int64(len(v))
	v, err = Grow[int64](&b, 10*n, n)
	if err != nil || int64(len(v)) < 10*n {
		t.Fatal(len(v), err)
	}
	for i := range n {
		if v[i] != i {
			t.Fatalf("element %d is %d", i, v[i])
		}
	}
	x, err := b.Tensor(Int64, n)
	if err != nil || x.Len() != n {
		t.Fatal(x, err)
	}
	expect.Is(t, expect.Err(b.Tensor(Int64, 1<<40)), ErrShape, "a tensor beyond the buffer")
	for _, bad := range []int64{-1, 1 << 61} {
		_, err := Grow[int64](&b, bad, 0)
		expect.That(t, err != nil, "grew to %d elements", bad)
	}
	if err := b.Close(); err != nil || ledger.Total() != 0 {
		t.Errorf("closed: %v, %d bytes", err, ledger.Total())
	}
}

func TestASliceIsAMatrixOfWholeRows(t *testing.T) {
	x := expect.Must(FromRows([]float32{1, 2, 3, 4, 5, 6}, 3))(t)
	expect.That(t, x.Rank() == 2 && x.Len() == 2 && x.Width() == 3, "%v", x)
	for _, width := range []int64{4, 0, -1} {
		expect.Is(t, expect.Err(FromRows(make([]int64, 6), width)), ErrShape, "rows of %d", width)
	}
}

func TestATensorOfTheHostIsReadWhereItLies(t *testing.T) {
	data := []byte{1, 2, 3, 4}
	for _, place := range []pinned.Placement{pinned.Host, pinned.Pinned} {
		x := expect.Must(NewPlaced(place, Uint8, data, 4))(t)
		host, release, err := x.OnHost()
		expect.OK(t, err)
		expect.That(t, &host.Bytes()[0] == &data[0] && host.Placement() == place && release() == nil,
			"%v is not the view that it was", host)
	}
	empty, _, err := expect.Must(NewPlaced(pinned.Device, Uint8, nil, 0))(t).OnHost()
	expect.That(t, err == nil && empty.Placement() == pinned.Host, "%v, %v", empty, err)
}

func TestTensorsOnADeviceAreNotViewed(t *testing.T) {
	x := expect.Must(NewPlaced(pinned.Device, Int32, make([]byte, 64), 4, 4))(t)
	rows, err := x.Rows(1, 3)
	expect.That(t, err == nil && rows.Placement() == pinned.Device && rows.Address() == x.Address()+16,
		"%v at %#x of %#x, %v", rows, rows.Address(), x.Address(), err)
	flat, err := rows.Reshape(8)
	expect.That(t, err == nil && flat.Placement() == pinned.Device && flat.Address() == rows.Address(), "%v, %v",
		flat, err)
	expect.Is(t, expect.Err(View[int32](flat)), ErrShape, "viewed on the host")
	x = FromSlice([]int32{1})
	expect.That(t, x.Address() == 0, "pageable memory has an address on a device")
	b := Buffer{pinned.Buffer{Options: pinned.Options{Place: pinned.Device}}}
	expect.Is(t, expect.Err(Grow[int32](&b, 1, 0)), pinned.ErrPlacement, "a slice of device memory")
	expect.Is(t, b.Claim(1), pinned.ErrPlacement, "device memory without a device")
}
