package gather

import (
	"errors"
	"sync"

	"github.com/khop-gnn/khop/internal/cuda"
)

// deviceKernels are the kernels of this package on one device. All stores of the device share them. Those of methods that
// are not the default are loaded with the first use.
type deviceKernels struct {
	rows   *rowsKernels
	device *cuda.Device
	users  int // guarded by deviceKernelsLoaded

	mu       sync.Mutex
	elements *elementsKernels
	order    *orderKernels
	cache    *cacheKernels
}

var deviceKernelsLoaded struct {
	sync.Mutex
	by map[*cuda.Device]*deviceKernels
}

// holdDeviceKernels loads the kernels, or finds them loaded. letGo them before the device is closed.
func holdDeviceKernels(device *cuda.Device) (*deviceKernels, error) {
	all := &deviceKernelsLoaded
	all.Lock()
	defer all.Unlock()
	k := all.by[device]
	if k == nil {
		rows, err := loadRowsKernels(device)
		if err != nil {
			return nil, err
		}
		k = &deviceKernels{rows: rows, device: device}
		if all.by == nil {
			all.by = make(map[*cuda.Device]*deviceKernels)
		}
		all.by[device] = k
	}
	k.users++
	return k, nil
}

// letGo unloads the kernels when the last user has let go.
func (k *deviceKernels) letGo() error {
	all := &deviceKernelsLoaded
	all.Lock()
	defer all.Unlock()
	if k.users--; k.users > 0 {
		return nil
	}
	delete(all.by, k.device)
	err := k.rows.Close()
	if k.elements != nil {
		err = errors.Join(err, k.elements.Close())
	}
	if k.order != nil {
		err = errors.Join(err, k.order.Close())
	}
	if k.cache != nil {
		err = errors.Join(err, k.cache.Close())
	}
	return err
}

func (k *deviceKernels) elementsLoaded() (*elementsKernels, error) {
	return loadedOnce(k, &k.elements, loadElementsKernels)
}

func (k *deviceKernels) orderLoaded() (*orderKernels, error) {
	return loadedOnce(k, &k.order, loadOrderKernels)
}

func (k *deviceKernels) cacheLoaded() (*cacheKernels, error) {
	return loadedOnce(k, &k.cache, loadCacheKernels)
}

func loadedOnce[K any](k *deviceKernels, at **K, load func(*cuda.Device) (*K, error)) (_ *K, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *at == nil {
		*at, err = load(k.device)
	}
	return *at, err
}
