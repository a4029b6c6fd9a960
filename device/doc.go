// Package device drives NVIDIA GPUs: devices, memory, streams, events and kernels.
//
// # Basics
//
// A Device is a GPU; its methods make everything else. Memory is allocated on the device (Device.Alloc), and an Address
// is a place in it, for kernels and copies. A Stream is a queue of copies and kernels: a call on a stream may return
// before its work has run. An Event marks a place in a stream, for which another stream or the host can wait. A Module
// is a set of kernels, which the driver assembles from PTX. A Kernel takes one struct by value; a Launcher is a kernel
// together with the Go type of that struct, and tools/ptx writes it from the kernel's source.
//
//	gpu, err := device.Open(0)
//	stream, err := gpu.NewStream()
//	memory, err := gpu.Alloc(int64(len(data)))
//	err = stream.CopyToDevice(memory.Address(), data)
//	err = kernels.scale.Launch(stream, 40, 256, 0,
//		deviceScale{at: memory.Address(), factor: 2})
//	err = stream.CopyToHost(data, memory.Address())
//	err = stream.Synchronize()
//
// examples/outside uses the package from another module, with a kernel of its own.
//
// # Builds without a GPU
//
// The package compiles everywhere, and code above it needs no build tags. A build with -tags cuda, with cgo, on Linux
// (amd64 or arm64) looks for the library that the environment variable KHOP_CUDA_DRIVER names, else for libcuda.so.1,
// when it starts. In every other build, and where neither loads, Count is 0, Open fails with ErrNoDevice, and Reason
// says why. Building needs neither a GPU nor a CUDA toolkit: tools/cuda-env.sh installs pinned headers into .venv-cuda,
// and prints what to export. make cudasim builds a simulated device for tests:
//
//	eval "$(tools/cuda-env.sh)"
//	KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so go test -tags cuda ./device/...
//
// # Caveats
//
// Any goroutine may call any method: each call locks its thread, makes the device's context current there, and restores
// the context that it found. Do not close something while another call uses it.
//
// Host memory that a copy uses, and memory that a kernel uses, must stay valid until the stream has passed the copy or
// kernel. An Address is a number: it keeps nothing alive, and the host must not read through it.
//
// Close what a Device made before you close the Device.
//
// A fault in a kernel, such as an access outside of any allocation, is final. That call and every later one on the
// device fail with ErrDeviceLost. Closing then does what it can and returns nil.
//
// Kernels must load on compute capability 7.0 or later, with driver 520 or later (CUDA 11.8).
package device
