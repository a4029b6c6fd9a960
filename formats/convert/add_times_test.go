package convert

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// dates writes numbers as a .npy file of a type of NumPy, "<M8[ms]" or "<i8".
func dates(t *testing.T, of string, list ...int64) string {
	t.Helper()
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", of, len(list))
	text := []byte("\x93NUMPY\x01\x00")
	text = binary.LittleEndian.AppendUint16(text, uint16(len(head)))
	text = append(text, head...)
	for _, v := range list {
		text = binary.LittleEndian.AppendUint64(text, uint64(v))
	}
	return write(t, "t.npy", string(text))
}

// Times that are added count as those of the dataset do, or are refused.
func TestAddedTimesAreInTheUnitOfTheDataset(t *testing.T) {
	dir := t.TempDir()
	timeTable(t, dir, "a.arrow", arrow.Millisecond, []int64{5000, 6000})
	expect.OK(t, os.WriteFile(filepath.Join(dir, "m.yaml"),
		[]byte("nodes: {n: {count: 3}}\nedges: {a: {file: a.arrow, time: at}}\n"), 0o600))
	add := func(name, path, in string) ([]int64, string, error) {
		data := filepath.Join(t.TempDir(), "x")
		expect.Must(Run(context.Background(), filepath.Join(dir, "m.yaml"), data, Options{}))(t)
		_, err := Add(context.Background(), data, adds(AddOptions{TimesIn: in}, extra{nodeColumn, name, "", path}))
		if err != nil {
			return nil, "", err
		}
		ds := expect.Must(formats.Open(data))(t)
		defer ds.Close()
		col, _ := ds.Graph().NodeColumn(0, name)
		for _, c := range ds.Graph().Schema().Nodes[0].Columns {
			if c.Name == name {
				return slices.Clone(expect.Must(unified.View[int64](col))(t)), c.Unit, nil
			}
		}
		return nil, "", errors.New("it is not there")
	}
	want := []int64{5, -1, missingTime}
	for _, c := range []struct{ name, path, in string }{
		{"time", dates(t, "<M8[ms]", 5999, -1, missingTime), ""},
		{"born", dates(t, "<M8[us]", 5e6, -1e6, missingTime), ""},
		{"time", dates(t, "<i8", 5000, -1, missingTime), "ms"},
	} {
		got, unit, err := add(c.name, c.path, c.in)
		expect.That(t, err == nil && unit == "s" && slices.Equal(got, want), "%+v: %v in %q, %v", c, got, unit, err)
	}
	_, _, err := add("time", dates(t, "<i8", 1, 2, 3), "")
	expect.That(t, errors.Is(err, source.ErrTimes), "numbers of no unit: %v", err)
}
