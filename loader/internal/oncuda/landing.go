package oncuda

import (
	"cmp"
	"context"
	"errors"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/presamplers"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/loader/tier"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// hostSampler samples on the CPU, where the topology stays on disk, and brings what it made to the device.
type hostSampler struct {
	*presamplers.Sampler
	stream *device.Stream
	sample graph.Sample // in page-locked memory
	copies device.Copies
}

func newHostSampler(p *plan.Plan, d *device.Device, ledger *pinned.Ledger, stream *device.Stream) (*hostSampler,
	error) {
	s, err := presamplers.OpenSampler(p.Kit, ledger)
	if err != nil {
		return nil, err
	}
	h := &hostSampler{Sampler: s, stream: stream}
	p.Bound.Init(&h.sample, p.Graph.Schema(), pinned.Options{Ledger: ledger, Purpose: pinned.Scratch, Device: d,
		Place: pinned.Pinned})
	return h, nil
}

// Sample samples the slot's request and waits until the sample is on the device.
func (h *hostSampler) Sample(ctx context.Context, s *slots.Slot) error {
	if err := h.sampleHere(ctx, s); err != nil {
		return err
	}
	if err := h.land(&s.Sample); err != nil {
		h.copies = device.Copies{}
		return err
	}
	if err := h.stream.CopyAll(&h.copies); err != nil {
		return err
	}
	return h.stream.Synchronize()
}

// sampleHere samples to memory of the host.
func (h *hostSampler) sampleHere(ctx context.Context, s *slots.Slot) error {
	s.Sample, h.sample = h.sample, s.Sample
	defer func() { s.Sample, h.sample = h.sample, s.Sample }() // also where the sampler panics
	return h.Sampler.Sample(ctx, s)
}

// land takes memory of the device for what was sampled, and lists the copies.
func (h *hostSampler) land(out *graph.Sample) (err error) {
	in, to := &h.sample, &out.Buffers
	for hop, lengths := range in.NumNodes {
		copy(out.NumNodes[hop], lengths)
	}
	copy(out.ViewOf, in.ViewOf)
	for t := range in.Nodes {
		if out.Nodes[t], err = h.bring(in.Nodes[t], &to.Nodes[t], true); err != nil {
			return err
		}
		if out.SeedLocal[t], err = h.bring(in.SeedLocal[t], &to.Seeds[t], true); err != nil {
			return err
		}
	}
	for i := range in.Arrays {
		if out.Arrays[i].Rows, err = h.bring(in.Arrays[i].Rows, &to.Arrays[i], true); err != nil {
			return err
		}
	}
	for _, own := range []bool{true, false} { // views come after what they are of
		for layer, of := range in.ViewOf {
			if (of == layer) != own {
				continue
			}
			if err := h.landLayer(out, layer, of); err != nil {
				return err
			}
		}
	}
	return nil
}

// landLayer is land for the blocks of a layer, which are those of layer of, or their beginning.
func (h *hostSampler) landLayer(out *graph.Sample, layer, of int) (err error) {
	to, own := &out.Buffers, layer == of
	for e, b := range h.sample.Blocks[layer] {
		at := &out.Blocks[layer][e]
		at.NumSrc, at.NumDst = b.NumSrc, b.NumDst
		if at.Indptr, err = h.bring(b.Indptr, &to.Indptr[of][e], own); err != nil {
			return err
		}
		if at.Indices, err = h.bring(b.Indices, &to.Indices[of][e], own); err != nil {
			return err
		}
		if at.EdgePos, err = h.bring(b.EdgePos, &to.EdgePos[of][e], own); err != nil {
			return err
		}
	}
	return nil
}

// bring returns a tensor as it will be in a buffer of the device. It is copied there, unless it is a view of another.
func (h *hostSampler) bring(t unified.Tensor, to *unified.Buffer, own bool) (at unified.Tensor, err error) {
	if !t.Valid() {
		return t, nil
	}
	if own {
		if err := to.Grow(int64(len(t.Bytes())), 0); err != nil {
			return at, err
		}
		h.copies.Add(to.Address(), t.Bytes())
	}
	var shape [unified.MaxRank]int64
	for i := range t.Rank() {
		shape[i] = t.Dim(i)
	}
	return to.Tensor(t.DType(), shape[:t.Rank()]...)
}

func (h *hostSampler) Close() error { return errors.Join(h.Sampler.Close(), h.sample.Close()) }

// ReadsTopology is of plan.Processor: kernels read what is in memory alone.
func (d *Processor) ReadsTopology(p *plan.Plan, room int64) bool {
	rest := d.Opt.Cache
	if free, _, err := d.Memory(); rest == 0 && err == nil {
		rest = cmp.Or(d.Opt.Memory, free/2) / 2 // at least: see budget
	}
	for _, t := range p.Topology() {
		n := int64(len(t.Bytes()))
		if held := (pinned.Options{Device: d.Device}).Size(n); held <= rest {
			rest -= held
		} else {
			room -= n
		}
	}
	return room >= 0
}

// pagedTopology opens the files of a topology that stays on disk, for samplers on the CPU.
func (p *placer) pagedTopology() error {
	for i, t := range p.plan.Topology() {
		if n := int64(len(t.Bytes())); n > 0 {
			p.d.Placed = append(p.d.Placed, tier.PlacedArray{Array: p.names()[i], Bytes: n, Rung: pinned.RungHost,
				Carry: "disk"})
			p.done += n
		}
	}
	return p.plan.Paged.Open(p.plan.Recipe, &p.plan.Set.Ledger, &p.d.owned)
}
