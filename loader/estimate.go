package loader

import (
	"context"
	"errors"
)

// Estimate says how much memory a loader needs: Loader.Estimate before the first batch, Plan before any memory is
// taken.
type Estimate struct {
	Workers  int `json:"workers"`  // after MaxMemory
	Prefetch int `json:"prefetch"` // after MaxMemory
	Slots    int `json:"slots"`    // Workers + Prefetch

	// Expected is the memory that the loader holds when New has returned, with room for batches a quarter larger than
	// those that it tried. Unless batches differ much it stays so.
	Expected Memory `json:"expected"`
	// Bound is the memory if every slot had the largest batch that the sampler can make. MaxMemory is compared with it.
	Bound Memory `json:"bound"`
	// SlotBound is one slot's part of it.
	SlotBound int64 `json:"slot_bound"`
	// Device and DeviceBound are the same for device memory, whose limit is DeviceMemory.
	Device      Memory `json:"device"`
	DeviceBound Memory `json:"device_bound"`
	// FileBytes is how many bytes of the source are read in place, through the page cache if they are in mapped files.
	FileBytes int64 `json:"file_bytes"`
}

// Estimate returns how much memory the loader needs, without the arrays of a Placed source that it shares.
func (l *Loader) Estimate() Estimate { return Estimate(l.plan.Estimate) }

// Plan returns what memory New would need with these arguments, without taking it: Expected within some percent. It
// samples a few batches in one slot to learn their size. Its errors are those of New.
func Plan(ctx context.Context, src Source, opt Options) (Estimate, error) {
	s, err := settle(src, opt, 1)
	if err != nil {
		return Estimate{}, err
	}
	p := s.plan
	if err = errors.Join(p.ExplainDamage(p.Foresee(ctx)), p.On.Close()); err != nil {
		return Estimate{}, err
	}
	return Estimate(p.Estimate), nil
}
