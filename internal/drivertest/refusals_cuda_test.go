//go:build cuda

package drivertest

import (
	"errors"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/cudatest"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestWhatTheDriverRefusesIsAnErrorAndLeavesNothing lets each driver function answer CUDA_ERROR_UNKNOWN once.
func TestWhatTheDriverRefusesIsAnErrorAndLeavesNothing(t *testing.T) {
	const unknown = 999
	r := open(t)
	for function, call := range callsOf(r) {
		before := cudatest.NowLive(t)
		cudatest.Fail(t, function, 1, unknown)
		err := call()
		e := (*device.Error)(nil)
		expect.That(t, errors.As(err, &e) && e.Code == unknown && e.Name == "CUDA_ERROR_UNKNOWN" && e.Op != "",
			"%s refuses: %v", function, err)
		after := cudatest.NowLive(t)
		expect.That(t, after == before, "%s refuses: there was %+v, there is %+v", function, before, after)
	}
	expect.OK(t, r.stream.Synchronize())
}

func TestDeviceWithoutRoomDoesNotOpen(t *testing.T) {
	cudatest.Fail(t, "cuDevicePrimaryCtxRetain", 1, 2)
	d, err := device.Open(0)
	expect.That(t, errors.Is(err, device.ErrOutOfMemory), "%v, %v", d, err)
	d = expect.Must(device.Open(0))(t)
	expect.OK(t, d.Close())
}

// callsOf returns a call of this package for each function of the driver.
func callsOf(r *rig) map[string]func() error {
	a := r.alloc(4096)
	_, host := r.host(512)
	timed, later := r.event(r.device.NewTimer()), r.event(r.device.NewTimer())
	r.must(errors.Join(r.stream.Record(timed), r.stream.Record(later), r.stream.Synchronize()))
	memory := anonymous(r, 4096)
	return map[string]func() error{
		"cuMemGetInfo_v2":              func() error { _, _, err := r.device.Memory(); return err },
		"cuCtxGetCurrent":              r.stream.Synchronize,
		"cuCtxPushCurrent_v2":          r.stream.Synchronize,
		"cuMemAlloc_v2":                func() error { _, err := r.device.Alloc(8); return err },
		"cuMemHostAlloc":               func() error { _, err := r.device.HostAlloc(8); return err },
		"cuMemHostRegister_v2":         func() error { return r.device.Register(memory, false) },
		"cuMemHostGetDevicePointer_v2": func() error { _, err := r.device.HostAddress(host); return err },
		"cuPointerGetAttribute":        func() error { _, err := r.device.Pointer(a); return err },
		"cuIpcGetMemHandle":            func() error { _, err := r.device.ExportMemory(a); return err },
		"cuIpcOpenMemHandle_v2": func() error {
			_, err := r.device.ImportMemory(device.IPCHandle{})
			return err
		},
		"cuModuleLoadDataEx":          func() error { _, err := loadDrivertestKernels(r.device); return err },
		"cuModuleGetFunction":         func() error { _, err := loadDrivertestKernels(r.device); return err },
		"cuFuncGetAttribute":          func() error { _, err := loadDrivertestKernels(r.device); return err },
		"cuCtxGetStreamPriorityRange": func() error { _, err := r.device.NewStream(); return err },
		"cuStreamCreateWithPriority":  func() error { _, err := r.device.NewStream(); return err },
		"cuStreamSynchronize":         r.stream.Synchronize,
		"cuStreamQuery":               func() error { _, err := r.stream.Query(); return err },
		"cuStreamWaitEvent":           func() error { return r.stream.Wait(timed) },
		"cuMemcpyHtoDAsync_v2":        func() error { return r.stream.CopyToDevice(a, host) },
		"cuMemcpyDtoHAsync_v2":        func() error { return r.stream.CopyToHost(host, a) },
		"cuMemcpyDtoDAsync_v2":        func() error { return r.stream.Copy(a, a+2048, 8) },
		"cuMemsetD32Async":            func() error { return r.stream.Fill32(a, 1, 1) },
		"cuLaunchKernel": func() error {
			return r.kernels.poke.Launch(r.stream, 1, 1, 0, devicePoke{a, 1})
		},
		"cuEventCreate":           func() error { _, err := r.device.NewEvent(); return err },
		"cuEventRecord":           func() error { return r.stream.Record(timed) },
		"cuEventQuery":            func() error { _, err := timed.Done(); return err },
		"cuEventSynchronize":      timed.Synchronize,
		"cuEventElapsedTime":      func() error { _, err := later.Elapsed(timed); return err },
		"cuStreamBeginCapture_v2": r.stream.BeginCapture,
		"cuStreamEndCapture":      func() error { _, err := r.stream.EndCapture(); return err },
		"cuGraphInstantiateWithFlags": func() error {
			r.must(r.stream.BeginCapture())
			_, err := r.stream.EndCapture()
			return err
		},
	}
}
