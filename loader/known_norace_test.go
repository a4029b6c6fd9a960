//go:build !race

package loader_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
)

// known says what a case loads: how many batches, their digests, counts and arrays, and the memory that is planned.
func known(t *testing.T, c *loadCase) string {
	t.Helper()
	s := c.settle(t)
	name := fmt.Sprintf("%s, seeds %v", expect.Short(s.Fingerprint()), c.opt.Seeds)
	if c.opt.Links.Negatives.Ratio > 0 {
		name += ", " + c.opt.Links.Negatives.Fingerprint()
	}
	name += "\n  "
	c.load(&c.opt)
	if c.opt.Residence == loader.Disk {
		c.opt.Residence = loader.Mapped // what a disk is given depends on what it is found to be
	}
	c.opt.Rank = c.opt.WorldSize - 1
	l, err := loader.New(c.graph, c.opt)
	if err != nil {
		return name + expect.Line(t, err, "") + "\n"
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
	text += fmt.Sprintf("%d nodes, %d edges, %d rows, %d bytes; ", n.Nodes, n.Edges, n.Rows, n.Bytes)
	if n.Links+n.Negatives+n.NegativesMissed > 0 {
		text += fmt.Sprintf("%d links, %d negatives, %d missed; ", n.Links, n.Negatives, n.NegativesMissed)
	}
	text += fmt.Sprintf("%d layers, %d arrays %016x\n  ", l.NumLayers(), len(l.Arrays()), arrays.Sum64())
	text += fmt.Sprintf("%d workers, %d slots of %d bytes, expected %v, bound %v, file %d, %s\n", e.Workers, e.Slots,
		e.SlotBound, e.Expected, e.Bound, e.FileBytes, l.State(c.epoch, 1).Seeds)
	expect.Is(t, l.Close(), nil, name)
	return text
}

// A loader's batches are the same in every version, and so are its plans. What differs here on purpose is another
// version of the sampling semantics, or another plan of memory.
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
	if os.Getpagesize() != 4096 && !expect.Rewriting() {
		t.Log("not compared: memory is taken in other pages here")
		return
	}
	expect.Golden(t, "testdata/known.txt", got.String())
}
