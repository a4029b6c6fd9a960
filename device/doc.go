// Package device drives NVIDIA GPUs: devices, memory, streams, events, kernel modules and launches.
//
// # Basics
//
// Open retains a device's primary context; the Device makes everything else: memory (Alloc, HostAlloc, Register),
// streams, events and modules. A Stream runs copies and kernels in order, beside other streams; events order streams
// among each other and tell the host how far they are. Kernels come from PTX that is compiled ahead of time and
// embedded; every parameter of a kernel is one cell of 64 bits.
//
// The package compiles everywhere. Device code above it is ordinary Go without build tags. Only a build with
// -tags cuda, with cgo, on Linux (amd64 or arm64) holds a driver: gorgonia.org/cu for contexts, modules, streams, events and
// launches, and a thin layer of C calls for what that lacks. In every other build Count is 0, Open fails with
// ErrNoDevice, and Reason says why.
//
// A binary built with -tags cuda neither links to nor needs libcuda: each driver function is a jump through a table
// (symbols.h, table_cuda.c, trampolines_cuda.S), which is filled at start from the library that the environment
// variable KHOP_CUDA_DRIVER names, else from libcuda.so.1. Where neither loads there are no devices, and that is all.
//
// # Building
//
// No CUDA toolkit is needed, and no GPU: tools/cuda-env.sh installs pinned wheels into .venv-cuda and prints what to
// export; make khop-cuda builds the command; make ptx compiles kernels (x.cu) to PTX with typed launchers
// (x_launch.go); make cudasim builds a simulated device, on which tools/test-cuda.sh runs the tests:
//
//	eval "$(tools/cuda-env.sh)"
//	KHOP_CUDA_DRIVER=$PWD/dist/libcudasim.so go test -tags cuda ./device/...
//
// # Caveats
//
// All methods may be called from any goroutine: each call locks its OS thread, makes the device's context current there
// and leaves the thread with the context that it found. Closing something beside another call on the same thing is a
// mistake of the caller.
//
// Work on a stream is asynchronous. Host memory handed to a copy, and device memory handed to a kernel, must stay valid
// until the stream has passed. An Address is a number: nothing keeps what it points to alive, and the host must not
// read through it.
//
// What a Device made must be closed or freed before the Device is closed.
//
// A fault in a kernel (an address outside of any allocation, an uncorrectable memory error) is final for the context:
// this and every later call on the device fails with ErrDeviceLost. Closing and freeing then do what they can and
// return nil.
package device
