package arrow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/foreign/tables/columnar"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// kinds is a schema of the types that are read by rows, and of some that are not stored.
var kinds = arrow.NewSchema([]arrow.Field{
	{Name: "i", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
	{Name: "decimal", Type: &arrow.Decimal128Type{Precision: 9}, Nullable: true},
	{Name: "s", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "b", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	{Name: "fixed", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32)},
	{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int16)},
	{Name: "large", Type: arrow.LargeListOf(arrow.PrimitiveTypes.Uint8)},
	{Name: "t", Type: arrow.BinaryTypes.LargeString},
	{Name: "x", Type: arrow.PrimitiveTypes.Float64},
}, nil)

// drawnRecord returns n rows of kinds.
func drawnRecord(r *rand.Rand, n int) arrow.Record {
	b := array.NewRecordBuilder(memory.DefaultAllocator, kinds)
	defer b.Release()
	for range n {
		null := r.IntN(9) == 0
		if null {
			for _, i := range []int{0, 1, 2, 3} {
				b.Field(i).AppendNull()
			}
		} else {
			b.Field(0).(*array.Int64Builder).Append(r.Int64())
			b.Field(1).AppendEmptyValue()
			b.Field(2).(*array.StringBuilder).Append(fmt.Sprint(r.IntN(1000)))
			b.Field(3).(*array.BooleanBuilder).Append(r.IntN(2) == 0)
		}
		for i, width := range []int{3, 5, 2} {
			l := b.Field(4 + i).(array.ListLikeBuilder)
			l.Append(true)
			for range width {
				switch v := l.ValueBuilder().(type) {
				case *array.Float32Builder:
					v.Append(r.Float32())
				case *array.Int16Builder:
					v.Append(int16(r.Uint32()))
				case *array.Uint8Builder:
					v.Append(uint8(r.Uint32()))
				}
			}
		}
		b.Field(7).(*array.LargeStringBuilder).Append(fmt.Sprint("text ", r.IntN(100)))
		b.Field(8).(*array.Float64Builder).Append(r.Float64())
	}
	return b.NewRecord()
}

// writeArrow writes batches to a file or a stream.
func writeArrow(t *testing.T, path string, list []arrow.Record, opt ...ipc.Option) {
	t.Helper()
	f := expect.Must(os.Create(path))(t)
	var w interface {
		Write(arrow.Record) error
		Close() error
	} = ipc.NewWriter(f, append(opt, ipc.WithSchema(kinds))...)
	if filepath.Ext(path) == ".arrow" {
		w = expect.Must(ipc.NewFileWriter(f, append(opt, ipc.WithSchema(kinds))...))(t)
	}
	for _, r := range list {
		expect.OK(t, w.Write(r))
	}
	expect.OK(t, errors.Join(w.Close(), f.Close()))
}

// opened opens a file whose memory is counted by a ledger.
func opened(path string, ledger *pinned.Ledger) (*File, error) {
	head, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Open(context.Background(), source.Local(path), &source.Budget{Memory: ledger}, head)
}

// spellColumns returns all that a scan of some columns yields.
func spellColumns(t *testing.T, f *File, want []int) string {
	t.Helper()
	all := make([]bytes.Buffer, len(want))
	row := int64(0)
	expect.OK(t, f.Scan(context.Background(), want, func(b *columnar.Batch) error {
		expect.Ensure(t, b.Row == row, "a batch begins at row %d, not %d", b.Row, row)
		row += int64(b.Rows)
		for i := range want {
			v := &b.Columns[i]
			all[i].Write(v.Data)
			for k := range b.Rows {
				fmt.Fprint(&all[i], v.Null(k))
				if v.Texts != nil {
					fmt.Fprintf(&all[i], "%q", v.Texts[k])
				}
			}
		}
		return nil
	}))
	expect.Ensure(t, row == f.Rows(), "%d rows, not %d", row, f.Rows())
	return fmt.Sprintf("%q", all)
}

// TestBatchesOfAnySizeAreReadByRows reads a batch of 3 MB within 1 MB, and compares with what the library reads whole.
func TestBatchesOfAnySizeAreReadByRows(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 2))
	records := []arrow.Record{drawnRecord(r, 5), drawnRecord(r, 0), drawnRecord(r, 40_001), drawnRecord(r, 1)}
	want := []int{0, 2, 3, 4, 5, 6, 7, 8}
	for _, name := range []string{"e.arrow", "e.arrows"} {
		path := filepath.Join(t.TempDir(), name)
		writeArrow(t, path, records)
		ledger := sourcetest.Limited(1 << 20)
		f := expect.Must(opened(path, ledger))(t)
		got := spellColumns(t, f, want)
		used := ledger.Used(pinned.Sources)
		expect.That(t, used == 0, "%s: %d bytes are still counted", name, used)
		f.lie, f.budget = nil, nil
		expect.That(t, spellColumns(t, f, want) == got, "%s: columns differ from what the library reads", name)
	}
}

// TestACompressedBatchThatIsTooLargeIsRefusedWithWhatItNeeds reads one within little memory.
func TestACompressedBatchThatIsTooLargeIsRefusedWithWhatItNeeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.arrow")
	writeArrow(t, path, []arrow.Record{drawnRecord(rand.New(rand.NewPCG(13, 3)), 40_000)}, ipc.WithZstd())
	ledger := sourcetest.Limited(1 << 20)
	_, err := opened(path, ledger)
	var said *formats.Error
	expect.That(t, errors.Is(err, pinned.ErrLimit) && errors.As(err, &said) && said.Path == path && said.Remedy != "",
		"%v", err)
	t.Log(err)
}
