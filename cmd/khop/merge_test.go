package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestSharesAreJoinedToTheSameBytes converts in 1, 3 and 8 shares, and at once.
func TestSharesAreJoinedToTheSameBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 7))
	var text strings.Builder
	text.WriteString("src,dst,time,weight\n")
	for range 400 {
		fmt.Fprintf(&text, "n%d,n%d,%d,%d.5\n", r.IntN(40), r.IntN(r.IntN(40)+1), r.IntN(9), r.IntN(9))
	}
	names, pairs := textFile(t, "edges.csv", text.String()), textFile(t, "pairs.txt", "0 1\n1 0\n2 2\n4 1\n")
	table := textFile(t, "x.npy", string(expect.NPY(make([]float32, 10), 5, 2)))
	for i, args := range [][]string{
		{names}, {names, "--symmetrise", "--by-time", "--self-loops", "add"}, {names, "--dedupe", "sum"},
		{pairs, "--symmetrise", "--features", table, "--reorder", "rcm"},
		{small(t)},
	} {
		if strings.HasSuffix(args[0], ".khop") {
			arrays := filepath.Join(t.TempDir(), "arrays")
			must(t, "export", args[0], arrays, "--to", "numpy")
			args[0] = arrays
		}
		whole := filepath.Join(t.TempDir(), "whole.khop")
		must(t, append([]string{"convert", args[0], whole}, args[1:]...)...)
		want := object(t, "info", whole, "--json")
		shares := []int{3}
		if i == 0 {
			shares = []int{1, 3, 8}
		}
		for _, n := range shares {
			dir := t.TempDir()
			merge := []string{"merge", filepath.Join(dir, "merged.khop")}
			for i := n; i >= 1; i-- {
				share := fmt.Sprintf("%s/share%d.khop", dir, i)
				must(t, append([]string{"convert", args[0], share, "--partition", fmt.Sprintf("%d/%d", i, n)},
					args[1:]...)...)
				merge = append(merge, share)
			}
			must(t, "check", merge[2])
			must(t, merge...)
			got := object(t, "info", merge[1], "--json")
			if got["id"] != want["id"] || fmt.Sprint(got["provenance"]) != fmt.Sprint(want["provenance"]) {
				t.Errorf("%q in %d shares: dataset %v of %v, not %v of %v", args, n, got["id"], got["provenance"],
					want["id"], want["provenance"])
			}
			must(t, "check", merge[1])
		}
	}
}

func TestSharesThatDoNotBelongTogetherAreRefused(t *testing.T) {
	dir := t.TempDir()
	one, other := textFile(t, "a.txt", "0 1\n1 2\n"), textFile(t, "b.txt", "0 1\n1 2\n2 2\n")
	share := func(name, src string, args ...string) string {
		must(t, append([]string{"convert", src, filepath.Join(dir, name)}, args...)...)
		return filepath.Join(dir, name)
	}
	first, second := share("1", one, "--partition", "1/2"), share("2", one, "--partition", "2/2")
	for what, shares := range map[string][]string{
		"share 2/2 is missing":         {first},
		"share 1/2 is missing":         {second},
		"are both share 1/2":           {first, share("again", one, "--partition", "1/2")},
		"is not a share":               {first, share("whole", one)},
		"are of different conversions": {first, share("other", other, "--partition", "2/2")},
		`options is`:                   {first, share("loops", one, "--partition", "2/2", "--self-loops", "drop")},
		"is share 1/3":                 {second, share("third", one, "--partition", "1/3")},
	} {
		_, err, code := khop(t, append([]string{"merge", filepath.Join(dir, "x")}, shares...)...)
		if code == exitDone || !strings.Contains(err, what) {
			t.Errorf("%q: status %d, %s", what, code, err)
		}
	}
	for _, bad := range []string{"0/2", "3/2", "1", "a/b", "1/5000"} {
		if _, err, code := khop(t, "convert", one, filepath.Join(dir, "x"), "--partition", bad); code == exitDone {
			t.Errorf("--partition %s: %s", bad, err)
		}
	}
	must(t, "merge", filepath.Join(dir, "x"), second, first)
}
