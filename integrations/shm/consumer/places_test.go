//go:build linux

package consumer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/khop-gnn/khop/integrations/shm/internal/wire"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/unified"
)

// A run is asked for at an epoch, where the rank stands, or at a state, and the server gets just that.
func TestARunIsAskedForWhereItIsToBegin(t *testing.T) {
	state := loader.State{Epoch: 5, Next: 77}
	text := expect.Must(json.Marshal(state))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		run  func(*Consumer) iter.Seq2[*Batch, error]
		want wire.Begin
		tail string
	}{
		"epoch": {func(c *Consumer) iter.Seq2[*Batch, error] { return c.Epoch(ended, 9) },
			wire.Begin{Mode: wire.BeginAt, Epoch: 9}, ""},
		"go on": {func(c *Consumer) iter.Seq2[*Batch, error] { return c.GoOn(ended) },
			wire.Begin{Mode: wire.BeginGoOn}, ""},
		"resume": {func(c *Consumer) iter.Seq2[*Batch, error] { return c.Resume(ended, state) },
			wire.Begin{Mode: wire.BeginState, JSON: uint32(len(text))}, string(text)},
	} {
		consumer, theirs := greeted(t)
		for b, err := range c.run(consumer) {
			expect.That(t, b == nil && errors.Is(err, context.Canceled), "%s: %v, %v", name, b, err)
		}
		list := said(t, consumer, theirs)
		expect.Ensure(t, len(list) != 0, "%s: nothing was asked for", name)
		m, tail, err := wire.Parse[wire.Begin](list[0])
		c.want.Head, c.want.Run = m.Head, m.Run
		k, _ := wire.KindOf(list[0])
		expect.That(t, err == nil && k == wire.KindBegin && m == c.want && m.Run != 0 && string(tail) == c.tail,
			"%s: %+v, %q, %v", name, m, tail, err)
	}
}

// A batch has its arrays by name, and says where to go on behind it.
func TestABatchHasItsArraysByNameAndItsPlace(t *testing.T) {
	l := newLiar(t)
	c, theirs := greeted(t)
	l.tellBatches(t, theirs)
	tell(t, theirs, wire.Append(nil, wire.KindEnd, wire.End{Run: 1, Sent: 3}, nil), -1)
	n := uint64(0)
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		names := []string{"num_nodes", "nodes/node", "node/node/feature"}
		for i, a := range b.Arrays() {
			got := b.Array(names[i])
			if a.Name != names[i] || !got.Valid() || &got.Bytes()[0] != &a.Tensor.Bytes()[0] ||
				len(got.Bytes()) != len(a.Tensor.Bytes()) {
				t.Errorf("batch %d: %s is %v, not %v", n, a.Name, got, a.Tensor)
			}
		}
		nodes := b.Array("nodes/node")
		expect.That(t, nodes.DType() == unified.Int32 && nodes.Len() == 100 && !b.Array("nodes/nobody").Valid(),
			"batch %d has nodes %v, and %v", n, nodes, b.Array("nodes/nobody"))
		want := c.info.State
		want.Epoch, want.Next = 0, n+1
		expect.That(t, b.State() == want && b.Number == n, "batch %d, number %d: %+v, want %+v", n, b.Number, b.State(),
			want)
		n++
	}
	expect.That(t, n == 3, "%d batches", n)
	_ = said(t, c, theirs)
}

// A batch that is held when its consumer is closed stays as it is, whatever the server writes into the slot; the memory
// is mapped until it is released.
func TestAHeldBatchOutlivesItsConsumer(t *testing.T) {
	l := newLiar(t)
	for i := range l.ring.Data[:4*slotSize] {
		if i%slotSize >= 8192 {
			l.ring.Data[i] = byte(i / 7)
		}
	}
	c, theirs := greeted(t)
	l.tellBatches(t, theirs)
	var held *Batch
	for b, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
		held = b.Keep()
		break
	}
	expect.That(t, !held.Padded, "its announcement does not say that it is padded")
	var want [][]byte
	for _, a := range held.Arrays() {
		want = append(want, bytes.Clone(a.Tensor.Bytes()))
	}
	expect.OK(t, c.Close())
	for i := range l.ring.Data {
		l.ring.Data[i] ^= 0xff
	}
	for i, a := range held.Arrays() {
		if !bytes.Equal(a.Tensor.Bytes(), want[i]) {
			t.Errorf("%s of a batch that is held has changed", a.Name)
		}
	}
	held.Release()
	expect.That(t, !c.mapped, "the last batch was released, and the memory is mapped still")
}
