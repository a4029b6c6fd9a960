//go:build !race

package edgelist

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/formats/internal/source/sourcetest"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/growth"
	"github.com/khop-gnn/khop/pinned"
)

// TestNoShapeOfATextCostsMoreThanItsLength reads texts that consist of one piece again and again.
func TestNoShapeOfATextCostsMoreThanItsLength(t *testing.T) {
	dir := t.TempDir()
	for _, c := range [][2]string{
		{"", "1 2\n"}, {"", "\n"}, {"", "\r"}, {"", "1 2\r"}, {"a b\n", "#\n"}, {"a,b\n", "\"\"\"\"\",b\n"},
		{"src,dst\n1,2\n", "x,"}, {"", "a "}, {"src,dst", ",a"}, {"src,dst", ",a_"}, {"", "\xef\xbb"},
		{"a b\n", "\xef b\n"}, {"1 2 3\n", "1 2 \"\n"},
		{"a b\n", "aa"}, {"src dst w\n1 2 3\n", "1 2 3\n"}, {"src dst w\n1 2 3\n1 2 .5\n", "1 2 3\n"},
	} {
		growth.Linear(t, 60_000, func(n int) {
			path := filepath.Join(dir, "edges")
			expect.OK(t, os.WriteFile(path, []byte(c[0]+strings.Repeat(c[1], n)), 0o600))
			if g, err := Read(context.Background(), source.Local(path),
				Options{Budget: &source.Budget{Dir: dir}}); err == nil {
				g.Close()
			}
		})
	}
}

// TestLongNamesMoveToAFile reads names of more bytes than the limit.
func TestLongNamesMoveToAFile(t *testing.T) {
	var b bytes.Buffer
	const n = 80
	long := strings.Repeat("x", 500_000)
	for i := range n {
		fmt.Fprintf(&b, "%d%s %d%s\n", i, long, (i+1)%n, long)
	}
	ledger := sourcetest.Limited(34 << 20)
	g := expect.Must(Read(context.Background(), local(t, "names.txt", b.Bytes()),
		Options{Budget: &source.Budget{Dir: t.TempDir(), Memory: ledger}}))(t)
	want := ""
	for i := range n {
		want += fmt.Sprintf("%d>%d ", i, (i+1)%n)
	}
	got := pairs(t, g)
	expect.That(t, got == strings.TrimSpace(want) && g.Node().Count == n, "%d nodes, edges%s", g.Node().Count, got)
	i := 0
	err := g.Node().Strings[0].Each(func(s string) error {
		expect.That(t, s == fmt.Sprint(i)+long, "name %d is %.20q..", i, s)
		i++
		return nil
	})
	expect.That(t, err == nil && i == n, "%d names, %v", i, err)
	err = g.Close()
	expect.That(t, err == nil && ledger.Total() == 0, "closed: %v, %d bytes are counted", err, ledger.Total())
}

// TestManyEdgesMoveToAFile reads more than the memory of a spool and the chunk of a store hold, with narrow and wide
// ids.
func TestManyEdgesMoveToAFile(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("src dst time\n")
	const n = 700_000
	for i := range n {
		id := int64(i)
		if i > n/2 {
			id += 1 << 32
		}
		fmt.Fprintf(&b, "%d %d %d\n", id, i%7, i*3)
	}
	dir, ledger := t.TempDir(), &pinned.Ledger{}
	ledger.SetLimit(4 << 20)
	g := expect.Must(Read(context.Background(), local(t, "edges.txt", b.Bytes()),
		Options{IDs: Numbers, Budget: &source.Budget{Dir: dir, Memory: ledger}}))(t)
	for range 2 { // it can be gone over again
		i := 0
		err := g.Edges.Each(func(batch source.Batch) error {
			src, dst := batch.Src, batch.Dst
			for k := range src {
				want := int64(i)
				if i > n/2 {
					want += 1 << 32
				}
				if src[k] != want || dst[k] != int64(i%7) {
					t.Fatalf("edge %d is %d>%d", i, src[k], dst[k])
				}
				i++
			}
			return nil
		})
		expect.Ensure(t, err == nil && i == n, "%d edges, %v", i, err)
	}
	times := elements(t, g, 0)
	for i := range int64(n) {
		v := binary.LittleEndian.Uint64(times[8*i:])
		expect.Ensure(t, int64(v) == 3*i, "time of edge %d is %d", i, v)
	}
	expect.OK(t, g.Close())
	left, _ := os.ReadDir(dir)
	expect.That(t, len(left) == 0, "left behind: %v", left)
}
