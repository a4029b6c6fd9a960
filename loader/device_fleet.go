package loader

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/khop-gnn/khop/loader/internal/oncuda"
	"github.com/khop-gnn/khop/pinned"
)

// PlaceAll is Place for several devices of one machine, which opt.Device names: "cuda:0,cuda:1". It returns a placed
// source for each device. Loaders are divided among them: loader number i is on device i modulo the number of devices.
// They share MaxMemory in that proportion, and each has its own DeviceMemory.
//
// Hot rows of a column that fits on no device are kept once, on one of the devices that reach each other's memory, or
// on each of them: HotShare decides. Devices that share rows free them when all of their placed sources are closed.
func PlaceAll(ctx context.Context, src Source, opt Options, loaders int) (all []*Placed, err error) {
	devices := strings.Split(opt.Device.Name, ",")
	if len(devices) > loaders {
		return nil, refuse("Device.Name", " is %s: more devices than the %d loaders",
			opt.Device.Name, loaders)
	}
	defer func() {
		if err != nil {
			for _, p := range all {
				err = errors.Join(err, p.Close())
			}
			all = nil
		}
	}()
	for i, name := range devices {
		own, n := opt, (loaders-i+len(devices)-1)/len(devices)
		own.Device.Name = name
		if opt.MaxMemory > 0 {
			own.MaxMemory = max(1, opt.MaxMemory/int64(loaders)*int64(n))
		}
		if len(devices) == 1 {
			p, err := Place(ctx, src, own, n)
			if err != nil {
				return nil, err
			}
			return []*Placed{p}, nil
		}
		p, err := newPlaced(ctx, src, own, n, true)
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	err = pinned.Guard(func() error { return shareHotRows(all) })
	return all, all[0].plan.ExplainDamage(err)
}

// fleet is placed sources whose devices read each other's caches.
type fleet struct {
	mu      sync.Mutex
	members []*Placed
	left    int // members that were closed
}

// leave counts a member that is not used any more, and frees all with the last: until then others may read its rows.
func (f *fleet) leave() error {
	f.mu.Lock()
	f.left++
	last := f.left == len(f.members)
	f.mu.Unlock()
	if !last {
		return nil
	}
	var errs []error
	for _, p := range f.members {
		errs = append(errs, p.free())
	}
	return errors.Join(errs...)
}

// shareHotRows fills the caches of placed sources on several devices, and notes who reads whose.
func shareHotRows(all []*Placed) error {
	var devices []*oncuda.Processor
	for _, p := range all {
		d, ok := p.plan.On.(*oncuda.Processor)
		if !ok {
			return refuse("Device.Name", " names several, but one of them is %s: name "+
				"CUDA devices, each once", p.Device())
		}
		if slices.ContainsFunc(devices, func(x *oncuda.Processor) bool { return x.Ordinal() == d.Ordinal() }) {
			return refuse("Device.Name", " names %s twice", p.Device())
		}
		devices = append(devices, d)
	}
	groups, err := oncuda.ShareHotRows(devices)
	for _, group := range groups {
		f := &fleet{}
		for _, d := range group {
			p := all[slices.Index(devices, d)]
			p.fleet = f
			f.members = append(f.members, p)
		}
	}
	return err
}
