package device

import (
	"os"
	"path/filepath"
)

// MPS reports whether kernels of several processes run on the device at the same time, by NVIDIA's Multi-Process
// Service. Without it the processes take turns: while a gather of one waits for the bus, kernels of another wait too.
// The service is started by "nvidia-cuda-mps-control -d", before the processes open the device.
//
// Recent drivers report it. With older ones a process counts as a client if it finds the service's control socket, in
// $CUDA_MPS_PIPE_DIRECTORY, else /tmp/nvidia-mps.
func (d *Device) MPS() bool {
	if d.Attribute(attrMPS) == 1 {
		return true
	}
	folder := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	if folder == "" {
		folder = "/tmp/nvidia-mps"
	}
	_, err := os.Stat(filepath.Join(folder, "control"))
	return err == nil
}

// WithoutMPS explains the effect of running without MPS, and the remedy.
const WithoutMPS = "MPS does not run: processes take turns on the device, and wait for each other's gathers; " +
	"start it before them with nvidia-cuda-mps-control -d"
