package parquet

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/pierrec/lz4/v4"

	"github.com/khop-gnn/khop/internal/expect"
)

// Pages of LZ4 are blocks; old writers have sizes before each block, or call a block alone by the same name.
func TestBlocksOfLZ4AreReadWithTheirSizesOrWithout(t *testing.T) {
	want := bytes.Repeat([]byte("khop and khop, "), 40)
	block := func(b []byte) []byte {
		to := make([]byte, lz4.CompressBlockBound(len(b)))
		return to[:expect.Must(lz4.CompressBlock(b, to, nil))(t)]
	}
	var framed []byte
	for _, b := range [][]byte{want[:99], want[99:]} {
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(b)))
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block(b)))), block(b)...)
	}
	for name, src := range map[string][]byte{"framed": framed, "alone": block(want)} {
		got := make([]byte, len(want))
		err := expandHadoop(got, src)
		expect.That(t, err == nil && bytes.Equal(got, want), "%s: %v, %q", name, err, got)
		for cut := range src {
			if expandHadoop(got, src[:cut]) == nil {
				t.Errorf("%s: %d of %d bytes are enough", name, cut, len(src))
			}
		}
		expect.That(t, expandHadoop(got[1:], src) != nil && expandHadoop(make([]byte, len(want)+1), src) != nil,
			"%s: it has another size than it states", name)
	}
}
