package loader

import (
	"errors"

	"github.com/khop-gnn/khop/loader/internal/errs"
)

// The errors to tell apart with errors.Is. Errors of sources, samplers and memory pass through: formats.ErrCorrupt,
// sampling.ErrGraph, gather.ErrRange, pinned.ErrFault and others are found in the same way.
var (
	// ErrOptions is returned for options that make no sense, or none for the source at hand.
	ErrOptions = errs.ErrOptions
	// ErrDevice is returned for a device that this machine, or this build, does not have.
	ErrDevice = errs.ErrDevice
	// ErrMemory is returned where Options.MaxMemory is too little.
	ErrMemory = errs.ErrMemory
	// ErrState is returned by Resume for a state of another dataset or other options.
	ErrState = errors.New("the state is not of this loader")
	// ErrBusy is returned for a second epoch while one is under way.
	ErrBusy = errors.New("an epoch is already under way in this loader")
	// ErrClosed is returned by a loader that was closed.
	ErrClosed = errors.New("the loader is closed")
	// ErrSlotsHeld is returned where no batch can be made because all slots hold batches that were kept and not
	// released.
	ErrSlotsHeld = errors.New("every slot is held by a kept batch")
	// ErrSampler is returned where a sampler panicked, or made a sample that contradicts itself.
	ErrSampler = errs.ErrSampler
)
