package edgelist

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

func write(t testing.TB, name string, text []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	expect.OK(t, os.WriteFile(p, text, 0o600))
	return p
}

// local writes a file and returns its place.
func local(t testing.TB, name string, text []byte) source.Place {
	return source.Local(write(t, name, text))
}

// elements returns all elements of a column of edges.
func elements(t testing.TB, g *source.Graph, i int) (all []byte) {
	t.Helper()
	expect.OK(t, g.Edges.Each(func(b source.Batch) error { all = append(all, b.Columns[i]...); return nil }))
	return all
}

func pairs(t testing.TB, g *source.Graph) string {
	t.Helper()
	var b strings.Builder
	expect.OK(t, g.Edges.Each(func(batch source.Batch) error {
		src, dst := batch.Src, batch.Dst
		for i := range src {
			fmt.Fprintf(&b, " %d>%d", src[i], dst[i])
		}
		return nil
	}))
	return strings.TrimPrefix(b.String(), " ")
}

// describe spells out a graph: nodes, edges, columns, names.
func describe(t testing.TB, g *source.Graph) string {
	t.Helper()
	s := fmt.Sprintf("%d: %s", g.Node().Count, pairs(t, g))
	for i, c := range g.Edges.Columns {
		s += fmt.Sprintf("; %s %v", c.Name, c.DType)
		for b := elements(t, g, i); len(b) > 0; b = b[c.DType.Size():] {
			switch c.DType {
			case unified.Int64:
				s += fmt.Sprint(" ", int64(binary.LittleEndian.Uint64(b)))
			case unified.Float64:
				s += fmt.Sprint(" ", math.Float64frombits(binary.LittleEndian.Uint64(b)))
			case unified.Float32:
				s += fmt.Sprint(" ", math.Float32frombits(binary.LittleEndian.Uint32(b)))
			case unified.Int8:
				s += fmt.Sprint(" ", int8(b[0]))
			}
		}
	}
	for _, n := range g.Node().Strings {
		s += "; " + n.Name
		_ = n.Each(func(v string) error { s += fmt.Sprintf(" %q", v); return nil })
	}
	return s
}

func TestReadFindsOutWhatItWasGiven(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opt        Options
		want       string
	}{
		{"spaces", "0 1\n2 0\n", Options{}, "3: 0>1 2>0"},
		{"no newline at the end", "0 1\n2 0", Options{}, "3: 0>1 2>0"},
		{"windows", "0 1\r\n2 0\r\n", Options{}, "3: 0>1 2>0"},
		{"lines that end in CR", "0 1\r2 0\r", Options{}, "3: 0>1 2>0"},
		{"line ends of all kinds", "0 1\r\n2 0\r3 1\n\r0 3", Options{}, "4: 0>1 2>0 3>1 0>3"},
		{"names on lines that end in CR", "b a\ra c\r", Options{}, `3: 0>1 1>2; id "b" "a" "c"`},
		{"tabs", "0\t1\n2\t0\n", Options{}, "3: 0>1 2>0"},
		{"commas and spaces", "0, 1\n2 ,0\n", Options{}, "3: 0>1 2>0"},
		{"semicolons", "0;1\n2;0\n", Options{}, "3: 0>1 2>0"},
		{"runs of white space", "  0   1  \n2\t\t0\n", Options{}, "3: 0>1 2>0"},
		{"comments", "# a\n% b\n// c\n\n0 1\n# d\n\n2 0\n", Options{}, "3: 0>1 2>0"},
		{"byte order mark", "\xef\xbb\xbf0 1\n", Options{}, "2: 0>1"},
		{"self-loops and parallel edges", "1 1\n1 1\n0 1\n0 1\n", Options{}, "2: 1>1 1>1 0>1 0>1"},
		{"one-based", "1 2\n", Options{}, "3: 1>2"},
		{"header of words", "a,b\n0,1\n", Options{}, "2: 0>1"},
		{"header known", "id_1,id_2\n0,1\n", Options{}, "2: 0>1"},
		{"header over names", "src\tdst\nx\ty\n", Options{}, `2: 0>1; id "x" "y"`},
		{"header in another order", "weight,target,source\n0.5,1,0\n2,0,0\n", Options{},
			"2: 0>1 0>0; weight float64 0.5 2"},
		{"integers that become floats", "src dst w\n0 1 7\n1 0 8\n1 1 .5\n", Options{},
			"2: 0>1 1>0 1>1; w float64 7 8 0.5"},
		{"integer column", "src,dst,time\n0,1,1082040961\n1,0,-5\n", Options{}, "2: 0>1 1>0; time int64 1082040961 -5"},
		{"words in a header's column", "src,dst,kind\n0,1,1\n1,0,b\n", Options{}, "2: 0>1 1>0"},
		{"columns without names", "0 1 5\n1 0 6\n", Options{}, "2: 0>1 1>0"},
		{"columns named", "0 1 5 x\n1 0 6 y\n", Options{Columns: []string{"src", "dst", "weight:float32", "-"}},
			"2: 0>1 1>0; weight float32 5 6"},
		{"columns named, ends first", "0 1 5\n", Options{Columns: []string{"a", "b", "t:int8"}}, "2: 0>1; t int8 5"},
		{"columns named over a header", "x,y,z\n0,1,5\n", Options{Columns: []string{"dst", "src", "z2"}},
			"2: 1>0; z2 int64 5"},
		{"names", "b a\na c\n", Options{}, `3: 0>1 1>2; id "b" "a" "c"`},
		{"leading zeros are names", "00001740 00002137\n00002137 5\n", Options{},
			`3: 0>1 1>2; id "00001740" "00002137" "5"`},
		{"leading zeros as numbers", "007 08\n", Options{IDs: Numbers}, "9: 7>8"},
		{"numbers as names", "7 5\n5 9\n", Options{IDs: Names}, `3: 0>1 1>2; id "7" "5" "9"`},
		{"huge ids as names", "1000000000000000000 5\n5 9\n", Options{IDs: Names},
			`3: 0>1 1>2; id "1000000000000000000" "5" "9"`},
		{"quotes", `"a, ""b""",c` + "\n" + `c,"d"` + "\n", Options{}, `3: 0>1 1>2; id "a, \"b\"" "c" "d"`},
		{"names with spaces", "New York\tBoston\n", Options{}, `2: 0>1; id "New York" "Boston"`},
		{"wide ids", "3000000000 1\n", Options{IDs: Numbers}, "3000000001: 3000000000>1"},
		{"nodes known", "0 1\n", Options{Nodes: 9}, "9: 0>1"},
		{"nothing, nodes known", "# empty\n", Options{Nodes: 9}, "9: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := expect.Must(Read(context.Background(), local(t, "edges.txt", []byte(c.text)), c.opt))(t)
			defer g.Close()
			got := describe(t, g)
			expect.That(t, got == c.want, "got  %s\nwant %s", got, c.want)
		})
	}
}

// badLines are files with a line that is wrong, and how the error names it.
var badLines = []struct {
	name, text string
	opt        Options
	row        int64
	says       string
}{
	{"one field", "0 1\n2\n", Options{}, 2, "the line has 1 field, not 2"},
	{"one field in all", "# c\n7\n8\n", Options{}, 2, "one field only"},
	{"three fields", "0 1\n2 3 4\n", Options{}, 2, "the line has 3 fields"},
	{"adjacency list", "0 1 2\n1 2\n", Options{}, 2, "the line has 2 fields, not 3"},
	{"a field more, late", strings.Repeat("1 2 3\n", 5000) + "1 2 3 4\n", Options{}, 5001, "has 4 fields, not 3"},
	{"a field less, late", strings.Repeat("1,2,3\n", 5000) + "1,2\n", Options{}, 5001, "has 2 fields, not 3"},
	{"negative", "0 1\n# c\n-2 3\n", Options{}, 3, "id -2 is negative"},
	{"word late", strings.Repeat("1 2\n", 5000) + "1 x\n", Options{}, 5001, `id "x" is not a number`},
	{"word early among numbers", strings.Repeat("1 2\n", 50) + "x 3\n", Options{}, 51, "most are"},
	{"leading zero late", strings.Repeat("1 2\n", 5000) + "1 02\n", Options{}, 5001, "leading zeros"},
	{"too large", "0 1\n1 99999999999999999999\n", Options{IDs: Numbers}, 2, "does not fit 64 bits"},
	{"floats", "0.5 1\n", Options{}, 1, "not a whole number"},
	{"sparse", "1000000000000000000 5\n5 9\n1 2\n", Options{}, -1, "IDs names"},
	{"beyond the table", "0 1\n1 3\n", Options{Nodes: 3}, 2, "not below the 3 nodes"},
	{"NaN weight", "src,dst,weight\n0,1,1\n0,1,nan\n", Options{}, 3, "nan is not a weight"},
	{"infinite weight", "src,dst,weight\n0,1,-inf\n", Options{}, 2, "not a weight"},
	{"negative weight", "src,dst,weight\n0,1,-2\n", Options{}, 2, "not a weight"},
	{"negative weight among floats", "src,dst,weight\n0,1,.5\n0,1,-.5\n", Options{}, 3, "not a weight"},
	{"word for a weight", "src,dst,weight\n0,1,heavy\n", Options{}, 2, `"heavy" is not a number`},
	{"word where a number was asked for", "0 1 x\n", Options{Columns: []string{"s", "d", "c:int64"}}, 1,
		`"x" is not a whole number`},
	{"word where a float was asked for", "0 1 2\n1 0 x\n", Options{Columns: []string{"s", "d", "c:float32"}}, 2,
		`"x" is not a number`},
	{"number too large for its type", "0 1 300\n", Options{Columns: []string{"s", "d", "c:int8"}}, 1,
		"does not fit int8"},
	{"unknown type", "0 1 300\n", Options{Columns: []string{"s", "d", "c:int7"}}, -1, "int7"},
	{"more columns than fields", "0 1\n", Options{Columns: []string{"s", "d", "c"}}, -1, "names 3 fields"},
	{"column twice", "0 1 2 3\n", Options{Columns: []string{"s", "d", "c", "c"}}, -1, `"c" twice`},
	{"source twice", "0 1\n2 3\n", Options{Columns: []string{"src", "src"}}, -1, `"src" twice`},
	{"target again as a column", "0 1 2\n", Options{Columns: []string{"src", "dst", "dst"}}, -1, `"dst" twice`},
	{"target again in capitals", "0 1 2\n", Options{Columns: []string{"src", "dst", "DST"}}, -1, `"DST" twice`},
	{"more columns than can be stored", "src,dst" + strings.Repeat(",a", 300) + "\n", Options{}, 1, "at most 256"},
	{"a byte order mark where files were joined", "\xef\xbb\xbf0 1\n1 2\n\xef\xbb\xbf2 3\n", Options{}, 3, "U+FEFF"},
	{"a byte order mark in a name", "a b\na\xef\xbb\xbf c\n", Options{}, 2, "U+FEFF"},
	{"empty", "", Options{}, -1, "no edge"},
	{"comments only", "# x\n", Options{}, -1, "no edge"},
	{"zero bytes", "0 1\n\x00\x01\x02", Options{}, -1, "zero bytes"},
	{"UTF-16", "\xff\xfe0\x00 \x001\x00", Options{}, -1, "UTF-16"},
	{"latin-1 names", "caf\xe9 b\n", Options{}, 1, "not UTF-8"},
	{"Matrix Market", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n", Options{}, 1,
		"Matrix Market"},
	{"pickle", "\x80\x02}q", Options{}, -1, "never executed"},
	{"tar archive", strings.Repeat("1 2\n", 64) + "1ustar\x0000 3\n", Options{}, -1, "unpack it first"},
	{"long line", strings.Repeat("1", 3<<20), Options{}, 1, "longer than"},
	{"long line later", "1 2\n" + strings.Repeat("x", MaxLine+5) + "\n", Options{}, 2, "longer than"},
	{"open quotes", "\"a,b\n", Options{}, 1, "quotes do not end"},
	{"text after quotes", "\"a\"b,c\n", Options{}, 1, "follows the quotes"},
	{"empty name", "a,b\n,c\n", Options{}, 2, "empty"},
	{"names that are fewer than rows", "a b\n", Options{Nodes: 3}, -1, "names 2 nodes"},
}

// What was taken until then is given back.
func TestBadLinesAreNamed(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.name, func(t *testing.T) {
			ledger := &pinned.Ledger{}
			c.opt.Budget = &source.Budget{Memory: ledger}
			g, err := Read(context.Background(), local(t, "edges.txt", []byte(c.text)), c.opt)
			if err == nil {
				defer g.Close()
				t.Fatalf("got %.200s", describe(t, g))
			}
			var e *formats.Error
			expect.That(t, errors.As(err, &e) && e.Row == c.row && strings.Contains(err.Error(), c.says) &&
				strings.HasSuffix(e.Path, "edges.txt"), "got %v; want row %d, saying %q", err, c.row, c.says)
			expect.That(t, ledger.Total() == 0, "%d bytes stay counted", ledger.Total())
		})
	}
}

func TestLooksKnowsText(t *testing.T) {
	for head, want := range map[string]bool{"": false, "0 1\n": true, "a": true, "\x00": false, "PK\x00": false,
		"\x80\x02}q": false, "\xff\xfe0\x00": true, "%%MatrixMarket matrix": false} {
		expect.That(t, Looks([]byte(head)) == want, "%q: not %v", head, want)
	}
}

func TestCompressedFilesAreReadAndCutOnesRefused(t *testing.T) {
	text := []byte(strings.Repeat("# comment\n0 1\n12 3\n", 3000))
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write(text)
	_ = w.Close()
	enc, _ := zstd.NewWriter(nil)
	for name, b := range map[string][]byte{"gzip": gz.Bytes(), "zstd": enc.EncodeAll(text, nil)} {
		t.Run(name, func(t *testing.T) {
			// The name of the file says nothing: its first bytes do.
			g := expect.Must(Read(context.Background(), local(t, "edges.txt", b), Options{}))(t)
			defer g.Close()
			expect.That(t, g.Edges.Count == 6000 && g.Node().Count == 13, "%d edges, %d nodes", g.Edges.Count,
				g.Node().Count)
			for _, cut := range []int{5, len(b) / 2, len(b) - 1} {
				if g, err := Read(context.Background(), local(t, "edges.txt", b[:cut]), Options{}); err == nil {
					t.Errorf("cut to %d of %d bytes it gives %d edges", cut, len(b), g.Edges.Count)
					g.Close()
				}
			}
		})
	}
	for _, magic := range []string{"\xfd7zXZ\x00abc", "\x04\x22\x4d\x18abc"} {
		_, err := Read(context.Background(), local(t, "edges.txt", []byte(magic)), Options{})
		expect.That(t, err != nil && strings.Contains(err.Error(), "not supported"), "%q: %v", magic, err)
	}
}

func TestCancellingStopsReading(t *testing.T) {
	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err := Read(ctx, local(t, "edges.txt", []byte("0 1\n")), Options{})
	expect.That(t, errors.Is(err, cause), "got %v", err)
}

// FuzzRead: no text panics, and what is taken has all its edges within its nodes and a row in each column for each.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"0 1\n2 0\n", "src,dst,weight\n0,1,.5\n", "\"a\"\"\",b\nc,\"d\"\n", "00 1\n", "1\t2\t3\n# x\n", "% c\n-1 5\n",
		"a;b;c\n1;2;3\n",
		"\xef\xbb\xbf1 2\r\n", "999999999999999999 1\n", "id_1,id_2\n1,2\n", "\x1f\x8b\x08\x00",
		"\x28\xb5\x2f\xfd\x04\x00", "0 1\r2 3\r\n", "a\xef\xbb\xbfb c\n",
	} {
		f.Add([]byte(s), uint8(0))
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(2))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, mode uint8) {
		path := filepath.Join(dir, "edges")
		expect.OK(t, os.WriteFile(path, text, 0o600))
		g, err := Read(context.Background(), source.Local(path), Options{IDs: IDs(mode % 3),
			Budget: &source.Budget{Dir: dir}})
		if err != nil {
			return
		}
		defer g.Close()
		n := int64(0)
		err = g.Edges.Each(func(batch source.Batch) error {
			src, dst := batch.Src, batch.Dst
			n += int64(len(src))
			for i := range src {
				if src[i] < 0 || src[i] >= g.Node().Count || dst[i] < 0 || dst[i] >= g.Node().Count {
					t.Fatalf("edge %d>%d of %d nodes", src[i], dst[i], g.Node().Count)
				}
			}
			return nil
		})
		expect.Ensure(t, err == nil && n == g.Edges.Count, "%d edges of %d: %v", n, g.Edges.Count, err)
		for i, c := range g.Edges.Columns {
			expect.Ensure(t, int64(len(elements(t, g, i))) == n*c.DType.Size(),
				"column %s: %d bytes for %d edges of %v", c.Name, len(elements(t, g, i)), n, c.DType)
		}
	})
}

// More names than the table of names begins with room for.
func TestThousandsOfNamesAreNumberedAsTheyAppear(t *testing.T) {
	const n = 5000
	var text, want strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "name %d\tname %d\n", i, i*7%(i+1))
		fmt.Fprintf(&want, " %d>%d", i, i*7%(i+1))
	}
	g := expect.Must(Read(context.Background(), local(t, "names.tsv", []byte(text.String())), Options{}))(t)
	defer g.Close()
	got := pairs(t, g)
	expect.That(t, g.Node().Count == n && got == want.String()[1:], "%d nodes: %.100s", g.Node().Count, got)
	i := 0
	_ = g.Node().Strings[0].Each(func(name string) error {
		expect.That(t, name == fmt.Sprintf("name %d", i), "node %d is %q", i, name)
		i++
		return nil
	})
}

func TestColumnsCanNameTypesOfNodes(t *testing.T) {
	for _, c := range []struct {
		text string
		opt  Options
		want string
	}{
		{"1 1 5\n1 2 3\n4 1 1\n", Options{Columns: []string{"src:user", "dst:item", "rating"}},
			"5 users 3 items: 1>1 1>2 4>1"},
		{"1 1\n1 x\n", Options{Columns: []string{"src:user", "dst:item"}, IDs: Names}, "1 users 2 items: 0>0 0>1"},
		{"1 0\n", Options{Columns: []string{"src:page", "dst:page"}}, "2 pages: 1>0"},
	} {
		g := expect.Must(Read(context.Background(), local(t, "edges.txt", []byte(c.text)), c.opt))(t)
		got := ""
		for _, n := range g.Nodes {
			got += fmt.Sprintf("%d %ss ", n.Count, n.Name)
		}
		got = strings.TrimSpace(got) + ": " + pairs(t, g)
		expect.That(t, got == c.want, "%q: %s, want %s", c.text, got, c.want)
		expect.OK(t, g.Close())
	}
	_, err := Read(context.Background(), local(t, "edges.txt", []byte("1 1\n")),
		Options{Columns: []string{"src:user", "dst"}})
	expect.That(t, err != nil && strings.Contains(err.Error(), "names both"), "one type: %v", err)
}

func TestAFieldWithoutANameIsNoted(t *testing.T) {
	text := []byte("src,dst,,w\n1,2,3,4\n2,1,5,6\n")
	g := expect.Must(Read(context.Background(), local(t, "edges.csv", text), Options{}))(t)
	defer g.Close()
	got := source.Text(g.Notes)
	expect.That(t, strings.Contains(got, "field 3 has no name in the header and is not stored"), "notes %q", got)
}
