//go:build !race

package loader_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

var writeKnown = flag.Bool("write-known", false, "write testdata/known.txt in place of comparing with it")

// known says what a case loads: how many batches, their digests, counts and arrays, and the memory that is planned.
func known(t *testing.T, c *loadCase) string {
	t.Helper()
	s := c.settle(t)
	name := fmt.Sprintf("%s, seeds %v, %+v\n  ", s.Fingerprint(), c.opt.Seeds, c.opt.Links.Negatives)
	c.load(&c.opt)
	if c.opt.Residence == loader.Disk {
		c.opt.Residence = loader.Mapped // what a disk is given depends on what it is found to be
	}
	c.opt.Rank = c.opt.WorldSize - 1
	l, err := loader.New(c.graph, c.opt)
	if err != nil {
		return name + err.Error() + "\n"
	}
	hash, arrays := xxh3.New(), xxh3.New()
	for b, err := range l.Epoch(t.Context(), c.epoch) {
		expect.Ensure(t, err == nil, "%s: %v", name, err)
		fmt.Fprintln(hash, digestOf(b))
	}
	for _, a := range l.Arrays() {
		fmt.Fprintf(arrays, "%+v\n", a)
	}
	e, n := l.Estimate(), l.Stats()
	text := fmt.Sprintf("%s%d of %d batches of %d seeds, %016x; ", name, l.NumBatches(), l.AllBatches(), l.NumSeeds(),
		hash.Sum64())
	text += fmt.Sprintf("%d nodes, %d edges, %d rows, %d bytes, %d links, %d negatives, %d missed; ", n.Nodes, n.Edges,
		n.Rows, n.Bytes, n.Links, n.Negatives, n.NegativesMissed)
	text += fmt.Sprintf("%d layers, %d arrays %016x\n  ", l.NumLayers(), len(l.Arrays()), arrays.Sum64())
	text += fmt.Sprintf("%d workers, %d slots, expected %v, bound %v, slot %d, file %d, %s\n", e.Workers, e.Slots,
		e.Expected, e.Bound, e.SlotBound, e.FileBytes, l.State(c.epoch, 1).Seeds)
	expect.Is(t, l.Close(), nil, name)
	return text
}

// A loader's batches are the same in every version, and so are its plans. What differs here on purpose is another
// version of the sampling semantics, or another plan of memory: -write-known writes it down.
func TestLoadersLoadWhatTheyLoadedAndPlanWhatTheyPlanned(t *testing.T) {
	options, r := loadOptions(t), rand.New(rand.NewPCG(20261123, 9))
	var values []int
	for _, o := range options {
		values = append(values, o.values)
	}
	var got bytes.Buffer
	pairs := newMeeting(values)
	for range 150 {
		c := loadCase{}
		for o, i := range pairs.next(r) {
			options[o].set(&c, i)
		}
		got.WriteString(known(t, &c))
	}
	const file = "testdata/known.txt"
	if *writeKnown {
		expect.OK(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	if os.Getpagesize() != 4096 {
		t.Log("not compared: memory is taken in other pages here")
		return
	}
	want := expect.Must(os.ReadFile(file))(t)
	expect.Same(t, strings.Split(got.String(), "\n"), strings.Split(string(want), "\n"))
}
