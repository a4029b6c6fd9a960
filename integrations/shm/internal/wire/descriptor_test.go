package wire

import (
	"bytes"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/unified"
)

// FuzzDescriptor: no descriptor makes a consumer see memory outside the segments, and the arrays of a right one are
// what was put in.
func FuzzDescriptor(f *testing.F) {
	memory := [][]byte{make([]byte, 4096), make([]byte, 1000)}
	d := NewDescriptor([]Form{
		{"num_nodes", unified.Int64, 2, shm.InTopology | shm.InFull}, {"nodes/n", unified.Int32, 1, 3},
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
				if !inside || len(a.Name) == 0 {
					t.Fatalf("array %q of %v lies outside the ring", a.Name, a.Tensor)
				}
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
