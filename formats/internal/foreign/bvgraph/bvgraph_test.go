package bvgraph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
)

// bitWriter writes a stream of bits.
type bitWriter struct {
	b []byte
	n int
}

func (w *bitWriter) put(v uint64, n int) {
	for i := n - 1; i >= 0; i-- {
		if w.n%8 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[len(w.b)-1] |= byte(v>>i&1) << (7 - w.n%8)
		w.n++
	}
}

func (w *bitWriter) unary(v uint64) {
	for range v {
		w.put(0, 1)
	}
	w.put(1, 1)
}

func (w *bitWriter) gamma(v uint64) {
	h := 0
	for (v+1)>>(h+1) > 0 {
		h++
	}
	w.unary(uint64(h))
	w.put(v+1, h)
}

func (w *bitWriter) zeta(v uint64, k int) {
	h := 0
	for v+1 >= 1<<((h+1)*k) {
		h++
	}
	w.unary(uint64(h))
	left := uint64(1) << (h * k)
	if m := v + 1; m-left < left {
		w.put(m-left, h*k+k-1)
	} else {
		w.put(m, h*k+k)
	}
}

func fold(v int64) uint64 {
	if v < 0 {
		return uint64(-2*v - 1)
	}
	return uint64(2 * v)
}

// write writes lists as residuals alone, but every third list, if it is not empty, as a copy of the one before.
func write(t testing.TB, dir string, lists [][]int64, properties string) source.Place {
	t.Helper()
	w, arcs := &bitWriter{}, 0
	for v, list := range lists {
		w.gamma(uint64(len(list)))
		arcs += len(list)
		if len(list) == 0 {
			continue
		}
		if v%3 == 2 && slices.Equal(list, lists[v-1]) {
			w.unary(1)
			w.gamma(0)
			continue
		}
		w.unary(0)
		w.gamma(0)
		w.zeta(fold(list[0]-int64(v)), 3)
		for i := range list[1:] {
			w.zeta(uint64(list[i+1]-list[i]-1), 3)
		}
	}
	text := fmt.Sprintf("graphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\nnodes=%d\narcs=%d\n%s", len(lists), arcs,
		properties)
	for name, b := range map[string][]byte{"g.graph": w.b, "g.properties": []byte(text)} {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	return source.Local(filepath.Join(dir, "g.graph"))
}

func read(at source.Place) (lists map[int64][]int64, err error) {
	g, err := Reader.Read(context.Background(), at, &source.Request{})
	if err != nil {
		return nil, err
	}
	lists = map[int64][]int64{}
	return lists, g.Edges.Each(func(b source.Batch) error {
		for i, v := range b.Src {
			lists[v] = append(lists[v], b.Dst[i])
		}
		return nil
	})
}

func TestListsAreDecoded(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	lists := make([][]int64, 300)
	for v := range lists {
		if v%3 == 2 {
			lists[v] = lists[v-1]
			continue
		}
		for w := range int64(len(lists)) {
			if r.IntN(1+v) == 0 {
				lists[v] = append(lists[v], w)
			}
		}
	}
	at := write(t, t.TempDir(), lists, "")
	got := expect.Must(read(at))(t)
	for v, want := range lists {
		if !slices.Equal(got[int64(v)], want) {
			t.Fatalf("list %d is %d, want %d", v, got[int64(v)], want)
		}
	}
	found := Reader.Find(at.Tree)
	expect.That(t, fmt.Sprint(found) == "[g.graph]", "found %v", found)
}

func TestBadGraphsAreErrors(t *testing.T) {
	lists := [][]int64{{1, 2}, {0}, {0}, {1}}
	for properties, says := range map[string]string{
		"version=1":                    "version \"1\" is not known",
		"endianness=little":            "only big",
		"compressionflags=BLOCKS_RICE": "\"BLOCKS_RICE\" is not supported",
		"zetak=0":                      "out of range",
		"nodes=2":                      "but there are 2 nodes",
		"nodes=-1":                     "not a number of nodes",
		"nodes=99999999999":            "but only",
		"arcs=4":                       "there are 4 nodes and 4 edges",
		"arcs=6":                       "holds 5 edges, but the properties say 6",
		"nodes=100":                    "",
	} {
		got, err := read(write(t, t.TempDir(), lists, properties+"\n"))
		expect.That(t, err != nil && strings.Contains(err.Error(), says), "%s: %v, %v; want %q", properties, got, err,
			says)
	}
}

func FuzzRead(f *testing.F) {
	at := write(f, f.TempDir(), [][]int64{{1, 2, 3}, {0}, {0}, {1}}, "")
	text := expect.Must(os.ReadFile(at.Path()))(f)
	f.Add(text, uint16(4), uint16(7), "")
	f.Add([]byte{0x55, 0xaa, 0x12, 0x80}, uint16(3), uint16(9), "REFERENCES_GAMMA | RESIDUALS_DELTA")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte, nodes, arcs uint16, flags string) {
		at := write(t, dir, nil, fmt.Sprintf("nodes=%d\narcs=%d\ncompressionflags=%s\n", nodes, arcs, flags))
		expect.OK(t, os.WriteFile(at.Path(), text, 0o600))
		lists, err := read(at)
		n := 0
		for v, list := range lists {
			n += len(list)
			expect.Ensure(t, v < int64(nodes) && slices.Max(list) < int64(nodes) && slices.Min(list) >= 0,
				"node %d of %d: %d", v, nodes, list)
		}
		expect.Ensure(t, err != nil || n == int(arcs), "%d edges, not %d", n, arcs)
	})
}

// TestReadingStopsAndKeepsItsLimit: at Ctrl-C, and at a Zstandard file that would keep 16 MB.
func TestReadingStopsAndKeepsItsLimit(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	at := write(t, t.TempDir(), [][]int64{{1}, {0}}, "")
	ledger := sourcetest.Limited(1 << 20)
	g, err := Reader.Read(ctx, at, &source.Request{Budget: &source.Budget{Memory: ledger}})
	expect.OK(t, err)
	cancel(stop)
	if err := g.Edges.Each(func(source.Batch) error { return nil }); !errors.Is(err, stop) {
		t.Errorf("%v after the context ended", err)
	}
	var b bytes.Buffer
	w := expect.Must(zstd.NewWriter(&b, zstd.WithWindowSize(16<<20)))(t)
	for range 20 { // too much for a frame that states its size
		_, err = w.Write(make([]byte, 1<<20))
	}
	expect.OK(t, errors.Join(err, w.Close(), os.WriteFile(at.Path(), b.Bytes(), 0o600)))
	g = expect.Must(Reader.Read(context.Background(), at, &source.Request{Budget: &source.Budget{
		Memory: ledger}}))(t)
	err = g.Edges.Each(func(source.Batch) error { return nil })
	expect.That(t, errors.Is(err, pinned.ErrLimit), "%v in 1 MB", err)
}

// TestWhatComesOfAnyWebGraph: see sourcetest.Outcomes.
func TestWhatComesOfAnyWebGraph(t *testing.T) {
	var cases []sourcetest.Case
	lists := [][]int64{{1, 2, 5, 6, 7}, {0}, {0}, {}, {4, 5}, {0, 1, 2, 3, 4, 5, 6, 7}, {1}, {7}}
	for i, properties := range []string{"", "windowsize=7\nminintervallength=4\nmaxrefcount=3\nzetak=3\n",
		"zetak=2\n", "compressionflags=OUTDEGREES_GAMMA|RESIDUALS_ZETA\n",
		"compressionflags=OUTDEGREES_DELTA|BLOCKS_DELTA|RESIDUALS_GAMMA|REFERENCES_GAMMA|BLOCK_COUNT_DELTA\n",
		"compressionflags=RESIDUALS_DELTA|REFERENCES_DELTA|OFFSETS_GAMMA\n", "compressionflags=RESIDUALS_NIBBLE\n",
		"compressionflags=RESIDUALS_GOLOMB\n", "windowsize=0\nminintervallength=0\n"} {
		at := write(t, t.TempDir(), lists, properties)
		files := map[string]string{}
		for _, name := range []string{"g.graph", "g.properties"} {
			b := expect.Must(os.ReadFile(at.Beside(name).Path()))(t)
			files[name] = string(b)
		}
		c := sourcetest.Case{Name: properties, Reader: Reader, At: "g.graph", Files: files, Lines: true}
		if i > 0 {
			c.Keep = []string{"g.properties"}
		}
		cases = append(cases, c)
	}
	sourcetest.Outcomes(t, cases...)
}

var _ source.Reader = Reader
