package loader

import (
	"errors"

	"github.com/khop-gnn/khop/internal/option"
	"github.com/khop-gnn/khop/loader/internal/errs"
)

// Sentinels for errors.Is. Errors of sources, samplers and memory pass through: formats.ErrCorrupt,
// sampling.ErrGraph, gather.ErrRange, use errors.Is with pinned.ErrFault and others, too.
var (
	// ErrOptions is returned for options that are invalid, or invalid for this source.
	ErrOptions = errs.ErrOptions
	// ErrDevice is returned for a device that this machine, or this build, does not have.
	ErrDevice = errs.ErrDevice
	// ErrMemory is returned if Options.MaxMemory is too small.
	ErrMemory = errs.ErrMemory
	// ErrState is returned by Resume for a state of another dataset or other options.
	ErrState = errors.New("the state is not of this loader")
	// ErrBusy is returned for a second epoch while one is running.
	ErrBusy = errors.New("an epoch is already under way in this loader")
	// ErrClosed is returned by a loader that was closed.
	ErrClosed = errors.New("the loader is closed")
	// ErrSlotsHeld is returned if no batch can be made because all slots hold batches that were kept and not released.
	ErrSlotsHeld = errors.New("every slot is held by a kept batch")
	// ErrSampler is returned if a sampler panicked, or made a sample that contradicts itself.
	ErrSampler = errs.ErrSampler
)

// refuse returns an ErrOptions that names an option by its field.
func refuse(field, format string, args ...any) error {
	return option.Errorf(ErrOptions, Options{}, field, format, args...)
}

// called names an option by its field, for the text of an error about another.
func called(field string) option.Name { return option.NameOf(Options{}, field) }
