package tables

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestEachEncodingOfPagesHoldsTheSame compares a table in all encodings, which pyarrow wrote, with itself in Arrow.
func TestEachEncodingOfPagesHoldsTheSame(t *testing.T) {
	read := func(name string) (says []string) {
		at := source.Local(filepath.Join("testdata", name))
		p := expect.Must(openPart(context.Background(), at, Format{}, &source.Request{}))(t)
		for i, f := range p.Fields() {
			if f.Name == "ragged" {
				p.Fields()[i].Ragged = true
			}
			text := f.Name
			expect.OK(t, p.Scan(context.Background(), []int{i}, func(b *columnar.Batch) error {
				for v, k := &b.Columns[0], 0; k < b.Rows; k++ {
					lo, hi := int64(k)*f.Width, int64(k+1)*f.Width
					if v.Offsets != nil {
						lo, hi = v.Offsets[k], v.Offsets[k+1]
					}
					switch {
					case v.Null(k):
						text += " -"
					case f.Text:
						text += fmt.Sprintf(" %q", v.Texts[k])
					default:
						text += fmt.Sprintf(" %x", v.Data[lo*f.DType.Size():hi*f.DType.Size()])
					}
				}
				return nil
			}))
			says = append(says, text)
		}
		return says
	}
	want := read("all.arrow")
	for _, name := range []string{"all.1.parquet", "all.2.parquet", "all.lz4.arrow", "all.arrows"} {
		for i, got := range read(name) {
			expect.That(t, got == want[i], "%s: %s\nwant %s", name, got, want[i])
		}
	}
}
