package wire

import (
	"bytes"
	"slices"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// FuzzDescriptor: no descriptor makes a consumer see memory outside the segments, and the arrays of a right one are
// what was put in.
func FuzzDescriptor(f *testing.F) {
	memory := [][]byte{make([]byte, 4096), make([]byte, 1000)}
	d := NewDescriptor([]Form{
		{"num_nodes", unified.Int64, 2, InTopology | InFull}, {"nodes/n", unified.Int32, 1, 3},
		{"node/n/feature", unified.Float32, 2, 2},
		{"empty", unified.Float64, 4, 0},
	})
	PutPlace(d, 3, 4, 5, Padded)
	PutArray(d, 0, 0, 128, []int64{2, 3})
	PutArray(d, 1, 1, 256, []int64{100})
	PutArray(d, 2, 0, 1024, []int64{10, 7})
	PutArray(d, 3, 9, 99, []int64{1 << 40, 1 << 10, 0, 7})
	f.Add(d)
	for _, at := range []int{8, 12, 64, 72, 76, 77, 80, 84, 96, 104, 96 + 64, 128} {
		for _, v := range []byte{0xff, 0x80, 1} {
			e := bytes.Clone(d)
			e[at+7-at%8] = v
			f.Add(e)
			e = bytes.Clone(d)
			e[at] = v
			f.Add(e)
		}
	}
	of := func(segment uint32) *Memory {
		if segment < uint32(len(memory)) {
			return &Memory{Data: memory[segment]}
		}
		return nil
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, names := range [][]string{nil, {"a", "b", "c", "d"}} {
			arrays, err := ParseDescriptor(b, of, names)
			if err != nil {
				continue
			}
			for _, a := range arrays {
				data := a.Tensor.Bytes()
				if len(data) == 0 {
					continue
				}
				inside := false
				for _, m := range memory {
					inside = inside || within(data, m)
				}
				expect.Ensure(t, inside && len(a.Name) != 0, "array %q of %v lies outside the ring", a.Name, a.Tensor)
			}
		}
	})
}

// within reports whether a lies in m.
func within(a, m []byte) bool {
	for i := range m {
		if &m[i] == &a[0] {
			return i+len(a) <= len(m)
		}
	}
	return false
}

// A descriptor gives back what was put in, and nothing with a number out of its range.
func TestADescriptorGivesBackWhatWasPutIn(t *testing.T) {
	memory := &Memory{Data: make([]byte, 4096)}
	of := func(segment uint32) *Memory {
		if segment == 7 {
			return memory
		}
		return nil
	}
	for rank := 1; rank <= unified.MaxRank; rank++ {
		d := NewDescriptor([]Form{{"array", unified.Int16, rank, 3}})
		PutPlace(d, 1, 2, 3, 0)
		dims := []int64{2, 3, 4, 5}[:rank]
		size := int64(2)
		for _, n := range dims {
			size *= n
		}
		PutArray(d, 0, 7, uint64(4096-(size+127)/128*128), dims)
		arrays, err := ParseDescriptor(d, of, nil)
		if err != nil || len(arrays) != 1 || arrays[0].Name != "array" || !arrays[0].InTopology || !arrays[0].InFull ||
			!slices.Equal(arrays[0].Tensor.Shape(), dims) || int64(len(arrays[0].Tensor.Bytes())) != size {
			t.Errorf("rank %d: %+v, %v", rank, arrays, err)
		}
		epoch, number, next := PlaceOf(d)
		expect.That(t, epoch == 1 && number == 2 && next == 3, "place %d %d %d", epoch, number, next)
		e := entryAt(d, 0)
		for name, change := range map[string]func(){
			"beyond the end":     func() { le.PutUint64(e, 4096) },
			"not aligned":        func() { le.PutUint64(e, 64) },
			"another segment":    func() { le.PutUint32(e[8:], 6) },
			"dtype 0":            func() { e[12] = 0 },
			"dtype 13":           func() { e[12] = 13 },
			"rank 0":             func() { e[13] = 0 },
			"rank 5":             func() { e[13] = 5 },
			"no name":            func() { le.PutUint32(e[20:], 0) },
			"a name too long":    func() { le.PutUint32(e[20:], 4097) },
			"a name outside":     func() { le.PutUint32(e[16:], uint32(len(d))-4) },
			"2^62 elements":      func() { le.PutUint64(e[32:], 1<<62) },
			"negative elements":  func() { le.PutUint64(e[32:], 1<<63) },
			"2^20 and an array":  func() { le.PutUint32(d[12:], 1<<20+1) },
			"more arrays":        func() { le.PutUint32(d[12:], 2) },
			"another size":       func() { le.PutUint32(d[8:], uint32(len(d))+1) },
			"something else":     func() { d[0] = 'x' },
			"more elements left": func() { le.PutUint64(e[32:], 2049) },
		} {
			was := bytes.Clone(d)
			change()
			_, err := ParseDescriptor(d, of, nil)
			expect.That(t, err != nil, "rank %d, %s: taken", rank, name)
			copy(d, was)
		}
	}
}
