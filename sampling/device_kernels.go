package sampling

import (
	"errors"

	"github.com/khop-gnn/khop/device"
)

// deviceKernels are the kernels of samplers on one device. All workers of the device share them.
type deviceKernels struct {
	assembly *assemblyKernels
	neighbor *neighborKernels
}

var sharedKernels device.Shared[*deviceKernels]

func loadDeviceKernels(device *device.Device) (*deviceKernels, error) {
	assembly, err := loadAssemblyKernels(device)
	if err != nil {
		return nil, err
	}
	neighbor, err := loadNeighborKernels(device)
	if err != nil {
		return nil, errors.Join(err, assembly.Close())
	}
	return &deviceKernels{assembly: assembly, neighbor: neighbor}, nil
}

// Close unloads them. None may be running.
func (k *deviceKernels) Close() error {
	return errors.Join(k.assembly.Close(), k.neighbor.Close())
}
