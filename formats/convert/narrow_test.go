package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/arrayfile"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// narrowedBy returns what a narrower passes on of rows that come in pieces of the given lengths, in turn.
func narrowedBy(col graph.Column, to unified.DType, rows []byte, pieces ...int) ([]byte, error) {
	var out bytes.Buffer
	as := col
	if as.DType = to; to == unified.Float32 { // the scales of int8
		as.Shape = nil
	}
	n := &arrayfile.WholeRows{Row: col.RowBytes(), Take: (&narrower{w: &out, path: "x.npy", col: &col,
		width: as.RowBytes(), store: storeAs(as)}).take}
	for i := 0; len(rows) > 0; i++ {
		k := min(pieces[i%len(pieces)], len(rows))
		if taken, err := n.Write(rows[:k]); err != nil || taken != k {
			return out.Bytes(), err
		}
		rows = rows[k:]
	}
	return out.Bytes(), nil
}

// TestRowsAreNarrowedInPiecesOfAnyLength compares with each number by itself, for all pairs of types.
func TestRowsAreNarrowedInPiecesOfAnyLength(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	const rows, width = 211, 5
	for _, from := range []unified.DType{unified.Float64, unified.Float32, unified.Float16, unified.BFloat16} {
		col := graph.Column{Name: "x", DType: from, Shape: []int64{width}}
		var data []byte
		values := make([]float32, rows*width)
		for i := range values {
			v := r.NormFloat64() * 100
			if i < width {
				v = 0 // a row of zeros
			}
			switch from {
			case unified.Float64:
				data, values[i] = binary.LittleEndian.AppendUint64(data, math.Float64bits(v)), float32(v)
			case unified.Float32:
				data, values[i] = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v))), float32(v)
			case unified.Float16:
				h := unified.HalfOf(float32(v))
				data, values[i] = binary.LittleEndian.AppendUint16(data, uint16(h)), h.Float32()
			case unified.BFloat16:
				h := unified.BHalfOf(float32(v))
				data, values[i] = binary.LittleEndian.AppendUint16(data, uint16(h)), h.Float32()
			}
		}
		want := map[unified.DType][]byte{}
		for i, v := range values {
			row := values[i/width*width:][:width]
			scale := max(slices.Max(row), -slices.Min(row)) / 127
			b := byte(0)
			if scale > 0 {
				b = byte(int8(math.RoundToEven(float64(v) / float64(scale))))
			}
			want[unified.Int8] = append(want[unified.Int8], b)
			want[unified.Float16] = binary.LittleEndian.AppendUint16(want[unified.Float16], uint16(unified.HalfOf(v)))
			want[unified.BFloat16] = binary.LittleEndian.AppendUint16(want[unified.BFloat16],
				uint16(unified.BHalfOf(v)))
			if i%width == 0 {
				want[unified.Float32] = binary.LittleEndian.AppendUint32(want[unified.Float32], math.Float32bits(scale))
			}
		}
		for to, want := range want {
			for _, pieces := range [][]int{{len(data)}, {1}, {7, 100, 3}, {width * int(from.Size())}, {1 << 10, 1}} {
				if got, err := narrowedBy(col, to, data, pieces...); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%v as %v in pieces of %v: %v, or other bytes", from, to, pieces, err)
				}
			}
		}
	}
}

// TestManyRowsAreNarrowedOnAllCores: more than a piece, in which a core's share is not a whole number of rows.
func TestManyRowsAreNarrowedOnAllCores(t *testing.T) {
	const width = 333
	values := make([]float32, 1000*width)
	var want []byte
	for i := range values {
		values[i] = float32(i % 2048)
		want = binary.LittleEndian.AppendUint16(want, uint16(unified.HalfOf(values[i])))
	}
	col := graph.Column{Name: "x", DType: unified.Float32, Shape: []int64{width}}
	got, err := narrowedBy(col, unified.Float16, unified.FromSlice(values).Bytes(), len(values)*4)
	expect.That(t, err == nil && bytes.Equal(got, want), "%v, or other bytes", err)
}

// TestNumbersThatDoNotFitAreRefusedWithTheirRow, whichever piece they are in; infinities and NaN fit halves.
func TestNumbersThatDoNotFitAreRefusedWithTheirRow(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		value float32
		to    unified.DType
		says  string
	}{
		{65519, unified.Float16, ""}, {65520, unified.Float16, "65520 does not fit float16"},
		{-65520, unified.Float16, "-65520 does not fit float16"}, {inf, unified.Float16, ""},
		{nan, unified.Float16, ""}, {math.MaxFloat32, unified.BFloat16, "3.4028235e+38 does not fit bfloat16"},
		{3.38e38, unified.BFloat16, ""}, {-inf, unified.BFloat16, ""}, {nan, unified.BFloat16, ""},
		{math.MaxFloat32, unified.Int8, ""}, {inf, unified.Int8, "+Inf cannot be stored as int8"},
		{-inf, unified.Float32, "-Inf cannot be stored as int8"}, {nan, unified.Int8, "NaN cannot be stored as int8"},
	} {
		for _, piece := range []int{1 << 20, 12, 5} {
			values := make([]float32, 300)
			values[2*123+1] = c.value
			col := graph.Column{Name: "x", DType: unified.Float32, Shape: []int64{2}}
			_, err := narrowedBy(col, c.to, unified.FromSlice(values).Bytes(), piece)
			if c.says == "" && err == nil {
				continue
			}
			expect.That(t, err != nil && c.says != "" && err.Error() == `x.npy: column "x": row 123: `+c.says+
				"; choose another FeatureDType", "%g as %v: %v", c.value, c.to, err)
		}
	}
}

// TestOnlyRowsThatBecomeSmallerAreNarrowed: not single numbers, not integers, not what takes as few bytes.
func TestOnlyRowsThatBecomeSmallerAreNarrowed(t *testing.T) {
	columns := []graph.Column{{Name: "a", DType: unified.Float32, Shape: []int64{3}},
		{Name: "b", DType: unified.Float32}, {Name: "c", DType: unified.Int32, Shape: []int64{3}},
		{Name: "d", DType: unified.Float16, Shape: []int64{3}},
		{Name: "e", DType: unified.Float64, Shape: []int64{2, 2}},
		{Name: "f", DType: unified.BFloat16, Shape: []int64{1}}}
	for to, want := range map[string]string{
		"":         "a float32[3] b float32[] c int32[3] d float16[3] e float64[2 2] f bfloat16[1]",
		"float16":  "a float16[3] b float32[] c int32[3] d float16[3] e float16[2 2] f bfloat16[1]",
		"bfloat16": "a bfloat16[3] b float32[] c int32[3] d float16[3] e bfloat16[2 2] f bfloat16[1]",
		"int8": "a int8[3] b float32[] c int32[3] d int8[3] e int8[2 2] f int8[1] a_scale float32[] " +
			"d_scale float32[] e_scale float32[] f_scale float32[]",
		"int4":             "a int4[3] b float32[] c int32[3] d int4[3] e int4[2 2] f bfloat16[1]",
		"a=int4,e=float16": "a int4[3] b float32[] c int32[3] d float16[3] e float16[2 2] f bfloat16[1]",
		"d=int8,bfloat16": "a bfloat16[3] b float32[] c int32[3] d int8[3] e bfloat16[2 2] f bfloat16[1] " +
			"d_scale float32[]",
	} {
		c := conversion{graph: source.Plain()}
		if to != "" {
			c.opt.FeatureDType = strings.Split(to, ",")
		}
		c.graph.Node().Count = 1000
		for _, col := range columns {
			c.graph.Node().Columns = append(c.graph.Node().Columns, source.Column{Column: col})
		}
		expect.OK(t, c.narrow(t.Context()))
		var got []string
		for _, col := range c.graph.Node().Columns {
			got = append(got, fmt.Sprintf("%s %v%v", col.Name, col.TypeName(), col.Numbers().Shape))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%v: %s", to, got)
		}
		if to == "float16" && (len(c.graph.Notes) != 2 ||
			c.graph.Notes[0].Text != `1000 rows of "a" are stored as `+
				"float16, not as float32: 6.00 kB (5.86 KiB) in place of 12.0 kB (11.7 KiB)") {
			t.Errorf("notes: %q", c.graph.Notes)
		}
	}
	c := conversion{graph: source.Plain(), opt: Options{FeatureDType: []string{"float16"}}}
	if err := c.narrow(t.Context()); err != nil || len(c.graph.Notes) != 1 ||
		c.graph.Notes[0].Text != "no column has rows of "+
			"floating-point numbers that float16 makes smaller: all stay as they are" {
		t.Errorf("%v, %q", err, c.graph.Notes)
	}
	for to, want := range map[string]string{
		"float32": `"float32" is none of float16, bfloat16, int8, int4`, "a=int3": `"int3" is none of`,
		"=int4": `"=int4" names no column`, "a=int4,a=int8": `"a=int8": its columns have a type already`,
		"int4,int8": `"int8": its columns have a type already`, "y=int4": `no nodes have a column "y"`,
	} {
		_, err := Run(context.Background(), write(t, "edges.txt", "0 1\n"), filepath.Join(t.TempDir(), "x"),
			Options{FeatureDType: strings.Split(to, ",")})
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), want), "%v: %v", to, err)
	}
}

func TestFeaturesAreStoredNarrow(t *testing.T) {
	src := write(t, "edges.txt", "0 1\n1 2\n")
	_, ds := convert(t, src, Options{FeatureDType: []string{"int8"},
		Features: write(t, "x.npy", string(expect.NPY([]float64{127, -254, 0, 0, 1, 2}, 3, 2)))})
	col, _ := ds.Graph().NodeColumn(0, "feature")
	scale, _ := ds.Graph().NodeColumn(0, "feature_scale")
	v, _ := unified.View[int8](col)
	s, _ := unified.View[float32](scale)
	expect.That(t, slices.Equal(v, []int8{64, -127, 0, 0, 64, 127}) && slices.Equal(s, []float32{2, 0, 2. / 127}),
		"%v times %v", v, s)
}

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
		_, err := Run(t.Context(), edges, filepath.Join(t.TempDir(), "x.khop"),
			Options{RowStride: stride, Features: table})
		expect.That(t, errors.Is(err, ErrOptions), "a stride of %d: %v", stride, err)
	}
}

// Rows of a database keep their width, so that each element has a kind, and new rows can follow.
func TestRowsWhoseElementsHaveKindsKeepTheirWidth(t *testing.T) {
	folder := files(t, map[string]string{"manifest.yaml": "name: shop\nval_timestamp: '2024-01-05'\ntest_timestamp: " +
		"'2024-01-08'\ntables:\n  users: {pkey: user, time_col: null, fkeys: {}}\n" +
		"  orders: {pkey: null, time_col: null, fkeys: {user: users}}\n",
		"users.csv": "user,age,w\nann,41,1.5\nbob,20,2.5\n", "orders.csv": "user\nann\n"})
	_, ds := convert(t, folder, Options{RowStride: 512})
	users := ds.Graph().Schema().NodeType("users")
	c := ds.Graph().Schema().Nodes[users].Columns
	expect.That(t, len(c) > 0 && c[0].Name == "numerical" && c[0].RowBytes() == 8 && len(c[0].Fields) > 0, "%+v", c)
}
