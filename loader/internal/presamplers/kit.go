// Package presamplers samples batches on the CPU, with what all samplers of a loader share.
package presamplers

import (
	"context"
	"errors"
	"io"

	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/errs"
	"github.com/khop-gnn/khop/loader/internal/recipe"
	"github.com/khop-gnn/khop/loader/internal/slots"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
)

// Kit is what all samplers and slots of a loader share.
type Kit struct {
	*recipe.Recipe
	Paged     *disk.Paged     // where the topology stays on disk
	RowMemory pinned.Provider // of columns' rows; nil: the system

	prepared sampling.Sampler // opens workers in place of the recipe's sampler; nil where that needs no preparation
	Drawer   *sampling.Drawer // of negatives, once there is memory for it; nil for none
	indexed  *pinned.Ledger   // counts the index of seeds that are edges of some types; nil before it is there
	shared   bool             // OpenShared has made prepared and drawer
}

// OpenShared makes what all workers share: tables of negatives, and what the sampler learns of the whole graph.
func (k *Kit) OpenShared(ctx context.Context, ledger *pinned.Ledger) error {
	k.shared = true
	env := k.Env(ledger)
	env.Progress = func(done, total int64) { k.Progress("prepare", done, total) }
	if err := ledger.Take(pinned.Scratch, k.Seeds.IndexBytes()); err != nil {
		return err
	}
	k.indexed = ledger
	return errs.Guarded(func() error {
		if err := k.Seeds.CountLinks(ctx, env.Progress); err != nil {
			return err
		}
		if k.Negatives.Ratio != 0 {
			d, err := k.Negatives.Open(ctx, env, k.SeededTypes())
			if err != nil {
				return err
			}
			k.Drawer = d
		}
		prepared, err := sampling.Prepare(ctx, k.Sampler, env)
		if err == nil {
			k.prepared = prepared
		}
		return err
	})
}

// CloseShared frees what OpenShared took.
func (k *Kit) CloseShared() (err error) {
	if c, ok := k.prepared.(io.Closer); ok {
		err = c.Close()
	}
	if k.Drawer != nil {
		err = errors.Join(err, k.Drawer.Close())
	}
	if k.indexed != nil {
		k.indexed.Give(pinned.Scratch, k.Seeds.IndexBytes())
	}
	k.prepared, k.Drawer, k.indexed, k.shared = nil, nil, nil, false
	return err
}

// HostMemory is the memory of a slot on the host.
func (k *Kit) HostMemory(ledger *pinned.Ledger) slots.Memory {
	m := slots.Memory{IDs: pinned.Options{Ledger: ledger, Purpose: pinned.Batches}}
	m.Rows = m.IDs
	m.Rows.From = k.RowMemory
	return m
}
