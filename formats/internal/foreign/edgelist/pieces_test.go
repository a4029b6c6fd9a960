package edgelist

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/internal/expect"
)

// drawnNumber draws a number as people write it.
func drawnNumber(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return strconv.FormatInt(r.Int64N(1<<r.IntN(60)+1), 10)
	case 1:
		return strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64)
	case 2:
		return "-" + strconv.FormatUint(r.Uint64()>>r.IntN(64), 10)
	case 3:
		return strconv.FormatFloat(math.Exp(20*r.NormFloat64()), 'e', r.IntN(17), 64)
	case 4:
		return fmt.Sprintf("%0*d.%0*d", r.IntN(12)+1, r.IntN(1e6), r.IntN(12)+1, r.IntN(1000))
	}
	return strconv.FormatFloat(r.Float64(), 'f', r.IntN(20), 64)
}

// drawnText returns a text of n lines, whose first column is whole numbers at first, and what strconv makes of it.
func drawnText(r *rand.Rand, n int) (text bytes.Buffer, ids []int64, columns [3][]byte) {
	for i := range n {
		word := strconv.Itoa(r.IntN(1000))
		if i > n/2 {
			word = drawnNumber(r)
		}
		fields := []string{strconv.FormatInt(r.Int64N(1<<40), 10), strconv.Itoa(r.IntN(100)), word,
			drawnNumber(r), strconv.Itoa(r.IntN(256) - 128)}
		ends := []string{" ", " ", " ", " ", "\n"}
		if i > 0 && r.IntN(50) == 0 { // lines of another form
			fields[r.IntN(2)] = " " + strings.Repeat("0", r.IntN(3)) + "7"
			ends = []string{"  ", "\t ", " ", "\t", "\r\n"}
			text.WriteString("# a comment\n\n")
		}
		for k, f := range fields {
			text.WriteString(f + ends[k])
		}
		for _, f := range fields[:2] {
			id, _ := strconv.ParseInt(strings.TrimSpace(f), 10, 64)
			ids = append(ids, id)
		}
		x, _ := strconv.ParseFloat(fields[2], 64)
		y, _ := strconv.ParseFloat(fields[3], 64)
		z, _ := strconv.Atoi(fields[4])
		columns[0] = binary.LittleEndian.AppendUint64(columns[0], math.Float64bits(x))
		columns[1] = binary.LittleEndian.AppendUint32(columns[1], math.Float32bits(float32(y)))
		columns[2] = append(columns[2], byte(z))
	}
	return text, ids, columns
}

// TestValuesAreThoseOfStrconvWithAnyNumberOfWorkers reads a text of several pieces.
func TestValuesAreThoseOfStrconvWithAnyNumberOfWorkers(t *testing.T) {
	const seed, n = 5, 30_000
	text, ids, want := drawnText(rand.New(rand.NewPCG(seed, 0)), n)
	at := local(t, "edges.txt", text.Bytes())
	for _, workers := range []int{1, 2, 5} {
		g := expect.Must(Read(context.Background(), at, Options{IDs: Numbers, Workers: workers,
			Columns: []string{"src", "dst", "x:float64", "y:float32", "z:int8"}}))(t)
		for i := range want {
			if got := elements(t, g, i); !bytes.Equal(got, want[i]) {
				at := 0
				for got[at] == want[i][at] {
					at++
				}
				t.Fatalf("seed %d, %d workers: column %d: byte %d differs", seed, workers, i, at)
			}
		}
		var got []int64
		_ = g.Edges.Each(func(b source.Batch) error {
			for i, v := range b.Src {
				got = append(got, v, b.Dst[i])
			}
			return nil
		})
		expect.That(t, slices.Equal(got, ids), "seed %d, %d workers: %d edges, or others", seed, workers, g.Edges.Count)
		expect.OK(t, g.Close())
	}
}

// TestColumnsOfNoGivenTypeAreTheSameWithAnyNumberOfWorkers reads whole numbers, then a fraction far behind, and a
// column of words.
func TestColumnsOfNoGivenTypeAreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	const n = 150_000
	var text bytes.Buffer
	text.WriteString("src,dst,x,kind\n")
	for i := range n {
		kind, x := "1", strconv.Itoa(i)
		if i >= n/2 {
			x += ".5"
		}
		if i == n-10 {
			kind = "word"
		}
		fmt.Fprintf(&text, "%d,%d,%s,%s\n", i%1000, i%7, x, kind)
	}
	at := local(t, "edges.csv", text.Bytes())
	for _, workers := range []int{1, 3} {
		g := expect.Must(Read(context.Background(), at, Options{Workers: workers}))(t)
		x := elements(t, g, 0)
		for _, i := range []int{0, 1, n/2 - 1, n / 2, n - 1} {
			want := float64(i)
			if i >= n/2 {
				want += .5
			}
			v := math.Float64frombits(binary.LittleEndian.Uint64(x[8*i:]))
			expect.That(t, v == want, "%d workers: value %d is %v", workers, i, v)
		}
		notes := source.Text(g.Notes)
		expect.That(t, len(g.Edges.Columns) == 1 && len(x) == 8*n && strings.Contains(notes,
			`field "kind" is not stored`) && strings.Contains(notes, fmt.Sprintf("(edge %d)", n-10)),
			"%d workers: %d columns, %d bytes; %s", workers, len(g.Edges.Columns), len(x), notes)
		expect.OK(t, g.Close())
	}
}

// TestTheFirstBadLineIsNamed puts bad lines into different pieces.
func TestTheFirstBadLineIsNamed(t *testing.T) {
	line := "1 2 " + strings.Repeat("x", 60) + "\n"
	text := []byte(strings.Repeat(line, 40_000))
	for _, at := range []int{30_000, 12_345} {
		text[at*len(line)] = '?'
	}
	for _, workers := range []int{1, 4} {
		_, err := Read(context.Background(), local(t, "edges.txt", text), Options{Workers: workers})
		expect.That(t, err != nil && strings.Contains(err.Error(), "row 12,346"), "%d workers: %v", workers, err)
		skips := &source.Skips{Limit: 1}
		if _, err = Read(context.Background(), local(t, "edges.txt", text), Options{Workers: workers,
			Skips: skips}); err == nil || !strings.Contains(err.Error(), "row 30,001") {
			t.Errorf("%d workers, one skipped: %v", workers, err)
		}
		skips.Limit = 3
		g, err := Read(context.Background(), local(t, "edges.txt", text), Options{Workers: workers, Skips: skips})
		expect.Ensure(t, err == nil && g.Edges.Count == 39_998 && skips.Count() == 3,
			"%d workers, three skipped: %v, %d", workers, err, skips.Count())
		expect.OK(t, g.Close())
	}
}
