package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// MaxPeers is the most devices that can share their caches of one column.
const MaxPeers = 8

// MaxPeerRows is the most rows that the cache of a device with peers can hold.
const MaxPeerRows = 1 << peerShift

const atPeer = 2 << 30 // the tier of a row in another device's cache, see rows.cuh

// ShareCaches is Store.Cache for stores of one column on 2 to MaxPeers devices, all of which reach each other
// (device.Device.Reach). Every device keeps the rows of own. The rows of shared are divided among the devices: each row
// is in the cache of one device, where the others read it. Both lists ascend without repeats, and have no row in
// common. Gathered rows stay the same.
//
// memory says how to count the bytes of each store's cache. Kernels of all these devices may read a cache: do not close
// a store or change its cache while any of the stores is used. After an error no store has a cache.
func ShareCaches(ctx context.Context, stores []*Store, own, shared []int64, memory []pinned.Options) (err error) {
	defer func() {
		for _, s := range stores {
			if err != nil {
				err = errors.Join(err, s.cache.close())
			}
		}
	}()
	dealt, err := dealRows(stores, own, shared)
	if err != nil {
		return fmt.Errorf("share caches: %w", err)
	}
	for i, s := range stores {
		if err := s.cache.close(); err != nil {
			return err
		}
		hot := slices.Concat(own, dealt[i])
		if err := s.fill(ctx, hot, int64(len(hot)), true, memory[i]); err != nil {
			return err
		}
	}
	// The caches are complete before any table leads to them.
	for i, s := range stores {
		if err := s.markPeers(ctx, stores, int64(len(own)), dealt, memory[i]); err != nil {
			return fmt.Errorf("share caches: %w", err)
		}
	}
	return nil
}

// dealRows checks what ShareCaches is given, and returns each store's rows of those that are shared.
func dealRows(stores []*Store, own, shared []int64) ([][]int64, error) {
	k := len(stores)
	if k < 2 || k > MaxPeers {
		return nil, fmt.Errorf("%w: %d devices, must be 2 to %d", unified.ErrShape, k, MaxPeers)
	}
	n, row := stores[0].column.Len(), stores[0].rowBytes
	for _, s := range stores {
		if s.column.Len() != n || s.rowBytes != row || s.onDevice {
			return nil, fmt.Errorf("%w: %v on cuda:%d is not %d rows of %d bytes outside of device memory",
				unified.ErrShape, s.column, s.device.Ordinal(), n, row)
		}
	}
	for _, list := range [][]int64{own, shared} {
		if err := checkHot(list, n); err != nil {
			return nil, err
		}
	}
	if most := len(own) + (len(shared)+k-1)/k; most > MaxPeerRows {
		return nil, fmt.Errorf("%w: %d rows on a device, at most %d", unified.ErrShape, most, MaxPeerRows)
	}
	dealt := make([][]int64, k)
	for i, id := range shared {
		dealt[i%k] = append(dealt[i%k], id)
	}
	return dealt, nil
}

// markPeers enters into the store's table the rows that the others have from slot first on.
func (s *Store) markPeers(ctx context.Context, stores []*Store, first int64, dealt [][]int64,
	memory pinned.Options) (err error) {
	var bases [MaxPeers]uint64
	for i, peer := range stores {
		bases[i] = uint64(peer.cache.hot)
		rows := int64(len(dealt[i]))
		if peer == s || rows == 0 {
			continue
		}
		err := s.inParts(ctx, dealt[i], rows, memory.Ledger, func(ids unified.Tensor, lo int64) error {
			place := atPeer | uint32(i)<<peerShift
			return s.mark(ids, deviceMark{first: first + lo, where: s.cache.where, place: place})
		})
		if err != nil {
			return err
		}
	}
	memory.Device, memory.Place = s.device, pinned.Host // device memory
	if s.cache.peers, err = pinned.Allocate(8*MaxPeers, memory); err != nil {
		return err
	}
	var pinner runtime.Pinner
	pinner.Pin(&bases[0])
	defer pinner.Unpin()
	s.cache.bases = s.cache.peers.Address()
	if err := s.own.CopyToDevice(s.cache.bases, unified.FromSlice(bases[:]).Bytes()); err != nil {
		return err
	}
	return s.own.Synchronize()
}
