package gather

import (
	"errors"
	"sync"

	"github.com/khop-gnn/khop/device"
)

// deviceKernels are the kernels of this package on one device. All stores of the device share them. Those of methods
// that are not the default are loaded with the first use.
type deviceKernels struct {
	rows *rowsKernels

	mu       sync.Mutex
	elements *elementsKernels
	order    *orderKernels
	cache    *cacheKernels
}

var sharedKernels device.Shared[*deviceKernels]

func loadDeviceKernels(device *device.Device) (*deviceKernels, error) {
	rows, err := loadRowsKernels(device)
	if err != nil {
		return nil, err
	}
	return &deviceKernels{rows: rows}, nil
}

// Close unloads them. None may be running.
func (k *deviceKernels) Close() error {
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

func (k *deviceKernels) elementsLoaded(device *device.Device) (*elementsKernels, error) {
	return loadedOnce(k, &k.elements, device, loadElementsKernels)
}

func (k *deviceKernels) orderLoaded(device *device.Device) (*orderKernels, error) {
	return loadedOnce(k, &k.order, device, loadOrderKernels)
}

func (k *deviceKernels) cacheLoaded(device *device.Device) (*cacheKernels, error) {
	return loadedOnce(k, &k.cache, device, loadCacheKernels)
}

func loadedOnce[K any](k *deviceKernels, at **K, device *device.Device, load func(*device.Device) (*K, error)) (_ *K,
	err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if *at == nil {
		*at, err = load(device)
	}
	return *at, err
}
