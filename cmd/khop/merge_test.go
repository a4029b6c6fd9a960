package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestSharesAreJoinedToTheSameBytes converts in 3 and 2 shares, and at once.
func TestSharesAreJoinedToTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	var text strings.Builder
	text.WriteString("src,dst,time,weight\n")
	for range 400 {
		fmt.Fprintf(&text, "n%d,n%d,%d,%d.5\n", r.IntN(40), r.IntN(r.IntN(40)+1), r.IntN(9), r.IntN(9))
	}
	names, pairs := textFile(t, "edges.csv", text.String()), textFile(t, "pairs.txt", "0 1\n1 0\n2 2\n4 1\n")
	table := textFile(t, "x.npy", string(expect.NPY(make([]float32, 10), 5, 2)))
	for _, c := range []struct { // formats/convert joins shares of other options
		n    int
		args []string
	}{{3, []string{names, "--symmetrise", "--by-time", "--self-loops", "add"}},
		{2, []string{pairs, "--symmetrise", "--features", table, "--reorder", "rcm"}}} {
		whole := filepath.Join(t.TempDir(), "whole.khop")
		must(t, append([]string{"convert", c.args[0], whole}, c.args[1:]...)...)
		want := object(t, "info", whole, "--json")
		dir := t.TempDir()
		merge := []string{"merge", filepath.Join(dir, "merged.khop")}
		for i := c.n; i >= 1; i-- {
			share := fmt.Sprintf("%s/share%d.khop", dir, i)
			must(t, append([]string{"convert", c.args[0], share, "--partition", fmt.Sprintf("%d/%d", i, c.n)},
				c.args[1:]...)...)
			merge = append(merge, share)
		}
		must(t, "check", merge[2])
		must(t, merge...)
		got := object(t, "info", merge[1], "--json")
		expect.That(t, got["id"] == want["id"] && fmt.Sprint(got["provenance"]) == fmt.Sprint(want["provenance"]),
			"%q in %d shares: dataset %v of %v, not %v of %v", c.args, c.n, got["id"], got["provenance"], want["id"],
			want["provenance"])
		must(t, "check", merge[1])
	}
}

func TestSharesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	dir := t.TempDir()
	one := textFile(t, "a.txt", "0 1\n1 2\n")
	share := filepath.Join(dir, "1")
	must(t, "convert", one, share, "--partition", "1/2")
	if _, err, code := khop(t, "merge", filepath.Join(dir, "x"), share); code == exitDone ||
		!strings.Contains(err, "share 2/2 is missing") {
		t.Errorf("status %d, %s", code, err)
	}
	for _, bad := range []string{"0/2", "3/2", "1", "a/b", "1/5000"} {
		_, err, code := khop(t, "convert", one, filepath.Join(dir, "x"), "--partition", bad)
		expect.That(t, code != exitDone, "--partition %s: %s", bad, err)
	}
}
