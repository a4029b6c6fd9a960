package loader

import (
	"context"
	"errors"
)

// Estimate says what memory a loader needs: Loader.Estimate before the first batch, Plan before anything is taken.
type Estimate struct {
	Workers  int `json:"workers"`  // after MaxMemory
	Prefetch int `json:"prefetch"` // after MaxMemory
	Slots    int `json:"slots"`    // Workers + Prefetch

	// Expected is what is held once New has returned, with room for batches a quarter larger than those it tried.
	// Unless batches differ much it stays so.
	Expected Memory `json:"expected"`
	// Bound is what the largest batch that the sampler can make would need in every slot. MaxMemory is kept against it.
	Bound Memory `json:"bound"`
	// SlotBound is one slot's part of it.
	SlotBound int64 `json:"slot_bound"`
	// Device is what is held in device memory once New has returned, DeviceBound what the largest batch would need
	// there in every slot. DeviceMemory is the limit.
	Device      Memory `json:"device"`
	DeviceBound Memory `json:"device_bound"`
	// FileBytes is how much of the source is read where it lies, through the page cache if it is in mapped files.
	FileBytes int64 `json:"file_bytes"`
}

// Estimate returns what memory the loader needs; of a Placed source that it shares the arrays are not in it.
func (l *Loader) Estimate() Estimate { return Estimate(l.plan.Estimate) }

// Plan returns what memory New would need with these arguments, without taking it: Expected within some percent. It
// samples a few batches in one slot to learn their size. Its errors are those of New.
func Plan(ctx context.Context, src Source, opt Options) (Estimate, error) {
	p, err := settle(src, &opt, 1)
	if err != nil {
		return Estimate{}, err
	}
	if err = errors.Join(p.ExplainDamage(p.Foresee(ctx)), p.On.Close()); err != nil {
		return Estimate{}, err
	}
	return Estimate(p.Estimate), nil
}
