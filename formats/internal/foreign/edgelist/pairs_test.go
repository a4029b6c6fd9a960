package edgelist

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/invariants"
)

// drawnPairs returns lines of two numbers, few of which are of another form.
func drawnPairs(r *rand.Rand, delim byte) (text []byte) {
	most := int64(1) << r.IntN(60)
	crlf := r.IntN(3) == 0
	for range 1 + r.IntN(600) {
		fields := []string{strconv.FormatInt(r.Int64N(most), 10), strconv.FormatInt(r.Int64N(most), 10)}
		between, end := string(delim), "\n"
		if crlf {
			end = "\r\n"
		}
		if r.IntN(1_000) == 0 {
			i := r.IntN(2)
			fields[i] = []string{"007", "+7", "-7", "x", "", "12345678901234567890", "1.0", "9 9"}[r.IntN(8)]
		}
		if r.IntN(1_000) == 0 {
			between = []string{"  ", "\t", " \t", ",", "", ";;"}[r.IntN(6)]
		}
		if r.IntN(1_000) == 0 {
			end = []string{"\r\n", " \n", "\n\n", "\n# a comment\n", "\t\n", " 5\n"}[r.IntN(6)]
		}
		text = append(text, fields[0]+between+fields[1]+end...)
	}
	return text
}

// TestLinesOfTwoNumbersAreWhatEachLineSays parses lines at once, with vectors and without, and one by one.
func TestLinesOfTwoNumbersAreWhatEachLineSays(t *testing.T) {
	defer func(v bool) { pairsVectors = v }(pairsVectors)
	have := pairsVectors
	r := rand.New(rand.NewPCG(13, 1))
	texts := 1_500
	if invariants.Enabled { // a parser is one goroutine's
		texts = 150
	}
	for n := range texts {
		delim := []byte(" \t,;")[r.IntN(4)]
		text := drawnPairs(r, delim)
		rd := &reader{path: "edges.txt", lay: &layout{delim: delim, dst: 1, fields: 2}}
		if rd.opt.Skips = (&source.Skips{Limit: 1 << 40}); n%2 == 0 {
			rd.opt.Skips = nil
		}
		if n%3 == 0 {
			rd.opt.Nodes = 1 + r.Int64N(1<<r.IntN(60))
		}
		rd.opt.IDs = []IDs{Auto, Numbers}[r.IntN(2)]
		want := newPiece(text)
		one := newParser(rd)
		one.prepare()
		for i := 0; i < want.n && want.err == nil; {
			line, next := cutLine(want.text(), i)
			if err := one.line(want, line); err != nil {
				if want.bad = append(want.bad, int32(i)); rd.opt.Skips == nil {
					want.err = rd.lineError(want, i, err)
				}
			}
			i = next
		}
		for _, pairsVectors = range []bool{false, have} {
			got := newPiece(text)
			newParser(rd).parse(got)
			expect.Ensure(t, slices.Equal(got.src, want.src) && slices.Equal(got.dst, want.dst),
				"text %d, vectors %v: %d edges, not the same as the %d of single lines:\n%.4000s", n, pairsVectors,
				len(got.src), len(want.src), text)
			switch {
			case (got.err == nil) != (want.err == nil) || got.err != nil && got.err.Error() != want.err.Error():
				t.Fatalf("text %d, vectors %v: %v, not %v", n, pairsVectors, got.err, want.err)
			case want.err == nil && !slices.Equal(got.bad, want.bad):
				t.Fatalf("text %d, vectors %v: bad lines at %v, not %v", n, pairsVectors, got.bad, want.bad)
			}
		}
	}
}

func newPiece(text []byte) *piece {
	return &piece{buf: slices.Concat(text, bytes.Repeat([]byte{0}, slack)), n: len(text)}
}

// What is found of a text are the bytes that are no digits, however many there are in a block.
func TestBytesThatAreNoDigitsAreFound(t *testing.T) {
	const seed = 20261128
	r := rand.New(rand.NewPCG(seed, 0))
	var at marks
	for round := range 200 {
		blocks, from := 1+r.IntN(markBlocks), r.IntN(70)
		b, share := make([]byte, from+64*blocks), r.IntN(101)
		var want []int32
		for i := range b {
			if b[i] = '0' + byte(r.IntN(10)); r.IntN(100) < share {
				b[i] = []byte{0, ' ', '\n', '/', ':', 'a', 0xb5, 0xff}[r.IntN(8)]
			}
			if i >= from && (b[i] < '0' || b[i] > '9') {
				want = append(want, int32(i))
			}
		}
		n := at.find(b, from, blocks)
		expect.Ensure(t, slices.Equal(at[:n], want), "seed %d, round %d: %v, want %v", seed, round, at[:n], want)
	}
}
