package convert

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// TestRowsArePaddedToTheirStride converts features of float32, and of int8 with scales, whose rows are and are not
// multiples of the stride, and in another order of the nodes.
func TestRowsArePaddedToTheirStride(t *testing.T) {
	const nodes, width = 3000, 33
	r := rand.New(rand.NewPCG(3, 4))
	features := make([]float32, nodes*width)
	for i := range features {
		features[i] = r.Float32()
	}
	edges := write(t, "edges.txt", "0 1\n1 2\n2 2999\n")
	table := write(t, "x.npy", string(expect.NPY(features, nodes, width)))
	rows := func(opt Options) unified.Tensor {
		opt.Features = table
		_, ds := convert(t, edges, opt)
		c, ok := ds.Graph().NodeColumn(0, "feature")
		expect.Ensure(t, ok, "there are no features")
		return c
	}
	for _, opt := range []Options{{}, {FeatureDType: []string{"int8"}}, {Reorder: ByDegree}} {
		plain := rows(opt)
		for _, stride := range []int64{8, 64, 4096} {
			opt.RowStride = stride
			padded := rows(opt)
			row, whole := plain.RowBytes(), (plain.RowBytes()+stride-1)/stride*stride
			expect.Ensure(t, padded.RowBytes() == whole && padded.DType() == plain.DType(), "%+v: rows are %v", opt,
				padded)
			for i := range int64(nodes) {
				got, want := padded.Bytes()[i*whole:(i+1)*whole], plain.Bytes()[i*row:(i+1)*row]
				expect.Ensure(t, bytes.Equal(got[:row], want) && bytes.Equal(got[row:], make([]byte, whole-row)),
					"%+v: row %d is %v, not %v and zeros", opt, i, got, want)
			}
		}
	}
	edges, table = write(t, "edges.txt", "0 1\n1 2\n"), write(t, "x.npy", string(expect.NPY(features[:3*width], 3,
		width)))
	c := rows(Options{RowStride: maxStride})
	expect.That(t, c.RowBytes() == maxStride, "at the greatest stride rows have %d bytes", c.RowBytes())
	for _, stride := range []int64{-8, 4, 24, 1 << 17} {
		if _, err := Run(t.Context(), edges, filepath.Join(t.TempDir(), "x.khop"),
			Options{RowStride: stride, Features: table}); !errors.Is(err, ErrOptions) {
			t.Errorf("a stride of %d: %v", stride, err)
		}
	}
}

// Rows of a database keep their width, so that each element has a kind, and new rows can follow.
func TestRowsWhoseElementsHaveKindsKeepTheirWidth(t *testing.T) {
	folder := filepath.Dir(write(t, "manifest.yaml", "name: shop\nval_timestamp: '2024-01-05'\ntest_timestamp: "+
		"'2024-01-08'\ntables:\n  users: {pkey: user, time_col: null, fkeys: {}}\n"+
		"  orders: {pkey: null, time_col: null, fkeys: {user: users}}\n"))
	for name, text := range map[string]string{"users": "user,age,w\nann,41,1.5\nbob,20,2.5\n",
		"orders": "user\nann\n"} {
		expect.OK(t, os.WriteFile(filepath.Join(folder, name+".csv"), []byte(text), 0o600))
	}
	_, ds := convert(t, folder, Options{RowStride: 512})
	users := ds.Graph().Schema().NodeType("users")
	c := ds.Graph().Schema().Nodes[users].Columns
	expect.That(t, len(c) > 0 && c[0].Name == "numerical" && c[0].RowBytes() == 8 && len(c[0].Fields) > 0, "%+v", c)
}
