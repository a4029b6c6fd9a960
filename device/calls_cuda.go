//go:build cuda && cgo && linux && (amd64 || arm64)

package device

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include <cuda.h>
#include "table_cuda.h"

// A kernel takes one parameter, or none. The array of pointers is made here: Go may not pass pointers to pointers.
static CUresult khop_launch(CUfunction kernel, CUstream stream, unsigned grid, unsigned block, unsigned shared,
                            void *argument) {
	void *parameters[] = {argument};
	return cuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, shared, stream, parameters, NULL);
}

// What the assembler in the driver says of a mistake goes to log, which has room for as many bytes.
static CUresult khop_load(CUmodule *module, const void *image, char *log, size_t room) {
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)room};
	log[0] = 0;
	CUresult code = cuModuleLoadDataEx(module, image, 2, options, values);
	log[room - 1] = 0;
	return code;
}

// The function of drivers from CUDA 12.8 on, which headers before lack and those of CUDA 13 have by another name.
CUresult khop_batch(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n, void *attributes, size_t *firsts,
                    size_t kinds, size_t *failed, CUstream stream) __asm__("cuMemcpyBatchAsync");

// Copies to a device, by one call where the driver has it.
static CUresult khop_copy_all(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t n, CUstream stream) {
	struct { int order, hints[4]; unsigned flags; } inStreamOrder = {1, {0}, 0}; // CUmemcpyAttributes
	size_t first = 0, failed;
	CUresult code = n > 1 ? khop_batch(to, from, sizes, n, &inStreamOrder, &first, 1, &failed, stream)
	                      : CUDA_ERROR_NOT_SUPPORTED;
	if (code != CUDA_ERROR_NOT_SUPPORTED) return code;
	code = CUDA_SUCCESS;
	for (size_t i = 0; i < n && code == CUDA_SUCCESS; i++)
		code = cuMemcpyHtoDAsync(to[i], (void *)from[i], sizes[i], stream);
	return code;
}
*/
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// The driver's functions that gorgonia.org/cu lacks or cannot call.

// pointer makes a pointer of an address outside of Go's memory.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func (n native) missing() string {
	if why := C.GoString(C.khop_cuda_why()); why != "" {
		return "no CUDA driver: " + why
	}
	if code := result(C.khop_cuda_init_code()); code != success {
		name, text := n.describe(code)
		return fmt.Sprintf("the CUDA driver does not start: %s (%d): %s", name, code, text)
	}
	return ""
}

func (native) describe(code result) (name, text string) {
	var cname, ctext *C.char
	name, text = "CUDA_ERROR", "unknown to this driver"
	if C.cuGetErrorName(C.CUresult(code), &cname) == success && cname != nil {
		name = C.GoString(cname)
	}
	if C.cuGetErrorString(C.CUresult(code), &ctext) == success && ctext != nil {
		text = C.GoString(ctext)
	}
	return name, text
}

func (n native) uuid(ordinal int) (id [16]byte, part bool, code result) {
	var d C.CUdevice
	if code = result(C.cuDeviceGet(&d, C.int(ordinal))); code != success {
		return id, false, code
	}
	// The first call names the board, the second an instance of it. From CUDA 13 on both name the instance, whose name
	// tells that it is one.
	var board, own C.CUuuid
	if code = result(C.cuDeviceGetUuid(&board, d)); code == success {
		code = result(C.cuDeviceGetUuid_v2(&own, d))
	}
	name, _ := n.name(ordinal)
	return *(*[16]byte)(unsafe.Pointer(&own)), own != board || strings.Contains(name, " MIG "), code
}

func (native) load(image []byte) (module handle, log string, code result) {
	const room = 8 << 10
	text := C.CBytes(append(slices.Clip(image), 0)) // PTX ends with a zero
	defer C.free(text)
	said := (*C.char)(C.malloc(room))
	defer C.free(unsafe.Pointer(said))
	var m C.CUmodule
	code = result(C.khop_load(&m, text, said, room))
	return handle(unsafe.Pointer(m)), strings.TrimSpace(C.GoString(said)), code
}

func (native) copyAll(stream handle, c *Copies) result {
	numbers := func(s []uint64) *C.CUdeviceptr { return (*C.CUdeviceptr)(unsafe.Pointer(unsafe.SliceData(s))) }
	return result(C.khop_copy_all(numbers(c.to), numbers(c.from), (*C.size_t)(unsafe.Pointer(&c.sizes[0])),
		C.size_t(len(c.to)), cStream(stream)))
}

func (native) hostAlloc(n int64) (uintptr, result) {
	var p unsafe.Pointer
	code := C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)
	return uintptr(p), result(code)
}

func (native) register(p uintptr, n int64, readOnly bool) result {
	flags := C.uint(C.CU_MEMHOSTREGISTER_PORTABLE | C.CU_MEMHOSTREGISTER_DEVICEMAP)
	if readOnly {
		flags |= 0x08 // CU_MEMHOSTREGISTER_READ_ONLY
	}
	return result(C.cuMemHostRegister(pointer(p), C.size_t(n), flags))
}

func (native) unregister(p uintptr) result { return result(C.cuMemHostUnregister(pointer(p))) }

func (native) hostAddress(p uintptr) (Address, result) {
	var d C.CUdeviceptr
	code := C.cuMemHostGetDevicePointer(&d, pointer(p), 0)
	return Address(d), result(code)
}

func (native) pointer(a Address) (PointerInfo, result) {
	get := func(attribute C.CUpointer_attribute, to unsafe.Pointer) result {
		return result(C.cuPointerGetAttribute(to, attribute, C.CUdeviceptr(a)))
	}
	var kind C.CUmemorytype
	switch code := get(C.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, unsafe.Pointer(&kind)); code {
	case success:
	case codeInvalidValue: // memory that the driver does not know
		return PointerInfo{}, success
	default:
		return PointerInfo{}, code
	}
	info := PointerInfo{OnDevice: kind == C.CU_MEMORYTYPE_DEVICE}
	var ordinal C.int
	var managed C.uint
	var device, start C.CUdeviceptr
	var host C.ulonglong
	var size C.size_t
	for attribute, to := range map[C.CUpointer_attribute]unsafe.Pointer{
		C.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:   unsafe.Pointer(&ordinal),
		C.CU_POINTER_ATTRIBUTE_IS_MANAGED:       unsafe.Pointer(&managed),
		C.CU_POINTER_ATTRIBUTE_DEVICE_POINTER:   unsafe.Pointer(&device),
		C.CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: unsafe.Pointer(&start),
		C.CU_POINTER_ATTRIBUTE_RANGE_SIZE:       unsafe.Pointer(&size),
	} {
		// What does not apply to this kind of memory is refused and stays 0.
		if code := get(attribute, to); code != success && code != codeInvalidValue && code != codeNotSupported {
			return PointerInfo{}, code
		}
	}
	info.Ordinal, info.Managed = int(ordinal), managed != 0
	if kind == C.CU_MEMORYTYPE_HOST || info.Managed { // a driver refuses to say it of other memory
		if code := get(C.CU_POINTER_ATTRIBUTE_HOST_POINTER, unsafe.Pointer(&host)); code != success {
			return PointerInfo{}, code
		}
	}
	info.Device, info.Start = Address(device), Address(start)
	info.Host, info.Size = uintptr(host), int64(size)
	return info, success
}

func (native) exportMemory(a Address) (h IPCHandle, code result) {
	code = result(C.cuIpcGetMemHandle((*C.CUipcMemHandle)(unsafe.Pointer(&h)), C.CUdeviceptr(a)))
	return h, code
}

func (native) importMemory(h IPCHandle) (Address, result) {
	var d C.CUdeviceptr
	code := C.cuIpcOpenMemHandle(&d, *(*C.CUipcMemHandle)(unsafe.Pointer(&h)), C.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
	return Address(d), result(code)
}

func (native) closeMemory(a Address) result { return result(C.cuIpcCloseMemHandle(C.CUdeviceptr(a))) }

func cEvent(h handle) C.CUevent   { return *(*C.CUevent)(unsafe.Pointer(&h)) }
func cStream(h handle) C.CUstream { return *(*C.CUstream)(unsafe.Pointer(&h)) }
func cGraph(h handle) C.CUgraph   { return *(*C.CUgraph)(unsafe.Pointer(&h)) }
func cExecutable(h handle) C.CUgraphExec {
	return *(*C.CUgraphExec)(unsafe.Pointer(&h))
}

func (native) launch(function, stream handle, grid, block, shared int, argument []byte) result {
	return result(C.khop_launch(*(*C.CUfunction)(unsafe.Pointer(&function)), cStream(stream), C.uint(grid),
		C.uint(block), C.uint(shared), unsafe.Pointer(unsafe.SliceData(argument))))
}

func (native) beginCapture(stream handle) result {
	return result(C.cuStreamBeginCapture(cStream(stream), C.CU_STREAM_CAPTURE_MODE_RELAXED))
}

func (native) endCapture(stream handle) (handle, result) {
	var g C.CUgraph
	code := C.cuStreamEndCapture(cStream(stream), &g)
	return handle(unsafe.Pointer(g)), result(code)
}

func (native) instantiate(graph handle) (handle, result) {
	var x C.CUgraphExec
	code := C.cuGraphInstantiateWithFlags(&x, cGraph(graph), 0)
	return handle(unsafe.Pointer(x)), result(code)
}

func (native) launchGraph(executable, stream handle) result {
	return result(C.cuGraphLaunch(cExecutable(executable), cStream(stream)))
}

func (native) closeGraph(graph, executable handle) result {
	code := result(success)
	if executable != 0 {
		code = result(C.cuGraphExecDestroy(cExecutable(executable)))
	}
	if c := result(C.cuGraphDestroy(cGraph(graph))); code == success {
		code = c
	}
	return code
}
