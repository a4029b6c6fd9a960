package sampling

import (
	"errors"
	"sync"

	"github.com/khop-gnn/khop/internal/cuda"
)

// deviceKernels are the kernels of samplers on one device. All workers of the device share them.
type deviceKernels struct {
	assembly *assemblyKernels
	neighbor *neighborKernels
	device   *cuda.Device
	users    int
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
		k = &deviceKernels{device: device}
		var err error
		if k.assembly, err = loadAssemblyKernels(device); err != nil {
			return nil, err
		}
		if k.neighbor, err = loadNeighborKernels(device); err != nil {
			return nil, errors.Join(err, k.assembly.Close())
		}
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
	return errors.Join(k.assembly.Close(), k.neighbor.Close())
}
