package convert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// shares converts a source in n shares, the last first, and returns where they are.
func shares(t *testing.T, src string, n int, opt Options) (paths []string) {
	t.Helper()
	for i := n; i >= 1; i-- {
		opt.Share = Share{i, n}
		paths = append(paths, filepath.Join(t.TempDir(), fmt.Sprintf("%d.khop", i)))
		expect.Must(Run(context.Background(), src, paths[len(paths)-1], opt))(t)
	}
	return paths
}

// TestSharesJoinToWhatConvertingAtOnceWrites, of several types, with columns, splits and names.
func TestSharesJoinToWhatConvertingAtOnceWrites(t *testing.T) {
	typed := newLibrary(5).write(t)
	names := write(t, "edges.csv", "src,dst,weight\nada,bob,1\ncal,bob,2\nbob,dan,3\neve,cal,4\nada,ada,5\nada,bob,6\n")
	for _, c := range []struct {
		src string
		n   int
		opt Options
	}{{typed, 1, Options{}}, {typed, 4, Options{}}, {names, 3, Options{Direction: Symmetrise, Loops: AddLoops}},
		{names, 7, Options{Merge: MergeSum}}, {names, 2, Options{Direction: Symmetrise}}} {
		_, whole := convert(t, c.src, c.opt)
		paths := shares(t, c.src, c.n, c.opt)
		dst := filepath.Join(t.TempDir(), "joined")
		s := expect.Must(JoinShares(context.Background(), paths, dst, MergeOptions{}))(t)
		joined := expect.Must(formats.Open(dst))(t)
		defer joined.Close()
		if joined.ID() != whole.ID() || s.NumEdges() != whole.Graph().NumEdges() ||
			s.NumNodes() != whole.Graph().NumNodes() {
			t.Errorf("%d shares of %s: %s and %d edges, not %s", c.n, filepath.Base(c.src), spell(t, joined),
				s.NumEdges(), spell(t, whole))
		}
		report, err := formats.Check(context.Background(), dst, formats.CheckOptions{})
		expect.That(t, err == nil && report.Found <= 0, "%v: %v", err, report)
		total := int64(0)
		for i, path := range slices.Backward(paths) {
			total += ofShare(t, path, Share{c.n - i, c.n})
		}
		expect.That(t, total == s.NumEdges(), "shares have %d edges, all %d", total, s.NumEdges())
		expect.Is(t, expect.Err(JoinShares(context.Background(), paths, dst, MergeOptions{})), formats.ErrExist,
			"a dataset that is there")
		if _, err := JoinShares(context.Background(), paths, dst, MergeOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// ofShare sees that a share has the in-edges of its nodes alone, and returns how many.
func ofShare(t *testing.T, path string, s Share) int64 {
	t.Helper()
	ds := expect.Must(formats.Open(path))(t)
	defer ds.Close()
	g := ds.Graph()
	n, of := g.NumNodes(), int64(s.Of)
	for v := range n {
		mine := v >= n*int64(s.Number-1)/of && v < n*int64(s.Number)/of
		degree := g.Indptr()[v+1] - g.Indptr()[v]
		expect.That(t, degree <= 0 || mine, "share %v has %d edges to node %d", s, degree, v)
	}
	expect.That(t, ds.Manifest().Provenance["share"] == s.String(), "%s says that it is share %q", path,
		ds.Manifest().Provenance["share"])
	return g.NumEdges()
}

func TestSharesThatDoNotBelongTogetherAreNotJoined(t *testing.T) {
	text, table := "0 1\n1 2\n2 3\n", write(t, "more.csv", "src,dst,time\n0,1,5\n1,2,5\n2,3,5\n")
	one, other := write(t, "a.txt", text), write(t, "b.txt", text+"0 2\n")
	first, second := shares(t, one, 2, Options{})[1], shares(t, one, 2, Options{})[0]
	third := shares(t, one, 3, Options{})
	whole := filepath.Join(t.TempDir(), "whole.khop")
	expect.Must(Run(context.Background(), one, whole, Options{}))(t)
	for _, c := range []struct {
		paths []string
		says  string
	}{
		{nil, "there are no shares to join"},
		{[]string{first, whole}, whole + ": it is not a share: convert with Share makes one"},
		{[]string{first}, "share 2/2 is missing: convert with Share 2/2, and merge again"},
		{[]string{second}, "share 1/2 is missing: convert with Share 1/2, and merge again"},
		{third[:2], "share 1/3 is missing: convert with Share 1/3, and merge again"},
		{[]string{third[0], third[2]}, "share 2/3 is missing: convert with Share 2/3, and merge again"},
		{third[1:], "share 3/3 is missing: convert with Share 3/3, and merge again"},
		{[]string{second, first, second}, second + " and " + second + " are both share 2/2"},
		{[]string{third[2], second}, third[2] + " is share 1/3, " + second + " share 2/2"},
		{[]string{first, shares(t, other, 2, Options{})[0]}, `of different conversions: source_edges is "4", not "3"`},
		{[]string{first, shares(t, one, 2, Options{Merge: MergeFirst})[0]}, `of different conversions: options is "`},
		{[]string{first, shares(t, table, 2, Options{})[0]}, "of different conversions: their types or columns of " +
			"edges differ"},
	} {
		dst := filepath.Join(t.TempDir(), "x")
		_, err := JoinShares(context.Background(), c.paths, dst, MergeOptions{})
		expect.That(t, errors.Is(err, ErrOptions) && strings.Contains(err.Error(), c.says), "got %v\nwant %s", err,
			c.says)
		if _, err := formats.Open(dst); err == nil {
			t.Errorf("%s: there is a dataset", c.says)
		}
	}
	stopped, stop := context.WithCancel(context.Background())
	stop()
	dst := filepath.Join(t.TempDir(), "x")
	expect.Is(t, expect.Err(JoinShares(stopped, []string{first, second}, dst, MergeOptions{})), context.Canceled,
		"stopped")
	_, err := formats.Open(dst)
	expect.That(t, err != nil, "stopped: there is a dataset")
}

// TestADamagedShareIsNotJoined: a flipped bit of any file is named, with share and chunk, and no new checksum is
// written over it.
func TestADamagedShareIsNotJoined(t *testing.T) {
	damageShares(t, shares(t, newLibrary(5).write(t), 2, Options{}))
	damageShares(t, shares(t, write(t, "names.txt", "a b\nb c\nc d\n"), 2, Options{}))
}

// damageShares flips a bit of each file of shares, one at a time.
func damageShares(t *testing.T, paths []string) {
	t.Helper()
	for i, path := range paths {
		ds := expect.Must(formats.Open(path))(t)
		columns := ds.Manifest().Columns
		expect.OK(t, ds.Close())
		for _, c := range columns {
			if c.Parts[0].Bytes == 0 {
				continue
			}
			p, of := c.Parts[0], fmt.Sprintf("share %d/2: %s: ", 2-i, filepath.Join(path, c.Parts[0].Path))
			flip := func() {
				file := filepath.Join(path, p.Path)
				text := expect.Must(os.ReadFile(file))(t)
				text[p.BodyOffset+p.Bytes/2] ^= 4
				expect.OK(t, os.WriteFile(file, text, 0o600))
			}
			flip()
			dst := filepath.Join(t.TempDir(), "x")
			_, err := JoinShares(context.Background(), paths, dst, MergeOptions{})
			expect.That(t, errors.Is(err, formats.ErrCorrupt) && strings.Contains(err.Error(), of) &&
				strings.Contains(err.Error(), "(chunk 1 of 1)"), "%s of share %d: %v", p.Path, 2-i, err)
			_, err = os.Stat(dst)
			expect.That(t, os.IsNotExist(err), "%s of share %d: a dataset is there", p.Path, 2-i)
			flip()
		}
	}
}

func TestSharesAreReadAsTheyAreWritten(t *testing.T) {
	for _, s := range []Share{{1, 1}, {3, 8}, {4096, 4096}} {
		var got Share
		err := got.UnmarshalText([]byte(s.String()))
		expect.That(t, got == s && err == nil, "%v: %v, %v", s, got, err)
	}
	for text, says := range map[string]string{
		"": "the third of eight is 3/8", "3": "the third of eight is 3/8", "a/8": "the third of eight is 3/8",
		"3/b": "the third of eight is 3/8", "0/0": "the third of eight is 3/8",
		"0/2":    "share 0/2: shares are 1/n to n/n, and n is at most 4096",
		"3/2":    "share 3/2: shares are 1/n to n/n, and n is at most 4096",
		"1/-1":   "share 1/-1: shares are 1/n to n/n, and n is at most 4096",
		"1/4097": "share 1/4097: shares are 1/n to n/n, and n is at most 4096",
	} {
		var s Share
		err := s.UnmarshalText([]byte(text))
		expect.That(t, errors.Is(err, ErrOptions) && strings.HasSuffix(err.Error(), says), "%q: %v, %v", text, s, err)
	}
}

// TestSharesDivideAnyNumberOfNodes without a gap, as evenly as it goes, and without overflow.
func TestSharesDivideAnyNumberOfNodes(t *testing.T) {
	for _, nodes := range []int64{0, 1, 7, 4095, 4097, 1 << 48, math.MaxInt64 / maxShares} {
		for _, of := range []int{1, 2, 7, 4096} {
			at := int64(0)
			for i := 1; i <= of; i++ {
				first, last := (Share{i, of}).bounds(nodes)
				size, each := last-first, nodes/int64(of)
				expect.Ensure(t, first == at && size >= each && size <= each+1, "share %d of %d of %d nodes: %d to %d",
					i, of, nodes, first, last)
				at = last
			}
			expect.That(t, at == nodes, "%d shares of %d nodes end at %d", of, nodes, at)
		}
	}
}

// Options that make the same dataset have one digest: limits, folders and who is told. Any other has another.
func TestDigestsTellOptionsApartThatMakeOtherDatasets(t *testing.T) {
	same := Options{Share: Share{1, 2}, DryRun: true, Force: true, MemoryLimit: 9, Log: func(string) {},
		Progress: func(string, int64, int64) {}, Features: "/a/x.npy", Labels: "/a/y.npy"}
	a, b := same.digest(), (&Options{Features: "/b/x.npy", Labels: "y.npy"}).digest()
	expect.That(t, a == b, "%s and %s", a, b)
	seen := map[string]bool{}
	for _, o := range []Options{{}, {From: "npz"}, {Direction: Directed}, {Merge: MergeSum}, {Loops: AddLoops},
		{ByTime: true}, {RelationsAsTypes: true}, {Features: "x"}, {Labels: "x"}, {Columns: []string{"src", "dst"}},
		{IDs: "names"}, {FeatureDType: 1}, {Reorder: ByDegree}, {SkipBad: 1}} {
		if seen[o.digest()] {
			t.Errorf("%+v: the digest of other options", o)
		}
		seen[o.digest()] = true
	}
}
