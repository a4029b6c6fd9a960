//go:build cuda && cgo && linux && (amd64 || arm64)

package device

import (
	"reflect"
	"unsafe"

	"gorgonia.org/cu"
)

// hasDriver says whether the build has CUDA.
const hasDriver = true

var drv driver = native{}

// native is the driver that the table of table_cuda.c leads to. This file goes through gorgonia.org/cu, calls_cuda.go
// through C.
type native struct{}

// answer returns the driver's code of an error of cu, whose type is not exported: an integer kind.
func answer(err error) result {
	if err == nil {
		return success
	}
	return result(reflect.ValueOf(err).Int())
}

// The types of cu are structs of one of the driver's pointers. These two turn a handle into one and back.
func in[T cu.CUContext | cu.Module | cu.Function | cu.Stream | cu.Event](h handle) T {
	return *(*T)(unsafe.Pointer(&h))
}

func out[T cu.CUContext | cu.Module | cu.Function | cu.Stream | cu.Event](v T, err error) (handle, result) {
	return *(*handle)(unsafe.Pointer(&v)), answer(err)
}

func (native) version() (int, result) {
	v := cu.Version()
	if v < 0 { // cu hides the code
		return 0, codeNotSupported
	}
	return v, success
}

func (native) count() (int, result) {
	n, err := cu.NumDevices()
	return n, answer(err)
}

func (native) name(ordinal int) (string, result) {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return "", answer(err)
	}
	name, err := d.Name()
	return name, answer(err)
}

func (native) attribute(ordinal int, a Attr) (int, result) {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return 0, answer(err)
	}
	v, err := d.Attribute(cu.DeviceAttribute(a))
	return v, answer(err)
}

func (native) retain(ordinal int) (handle, result) {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return 0, answer(err)
	}
	// Waiting threads sleep rather than spin. It has no effect, and does not matter, where another library was first.
	_ = d.SetPrimaryCtxFlags(cu.SchedBlockingSync)
	return out(d.RetainPrimaryCtx())
}

func (native) release(ordinal int) result {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return answer(err)
	}
	return answer(d.ReleasePrimaryCtx())
}

func (native) canReach(ordinal, other int) (bool, result) {
	d, err := cu.GetDevice(ordinal)
	if err != nil {
		return false, answer(err)
	}
	peer, err := cu.GetDevice(other)
	if err != nil {
		return false, answer(err)
	}
	can, err := d.CanAccessPeer(peer)
	return can != 0, answer(err)
}

func (native) reach(other handle) result { return answer(in[cu.CUContext](other).EnablePeerAccess(0)) }

func (native) current() (handle, result) { return out(cu.CurrentContext()) }

func (native) push(context handle) result {
	return answer(cu.PushCurrentCtx(in[cu.CUContext](context)))
}

func (native) pop() result {
	_, err := cu.PopCurrentCtx()
	return answer(err)
}

func (native) memory() (free, total int64, code result) {
	free, total, err := cu.MemInfo()
	return free, total, answer(err)
}

func (native) alloc(n int64) (Address, result) {
	p, err := cu.MemAlloc(n)
	return Address(p), answer(err)
}

func (native) free(a Address) result { return answer(cu.MemFree(cu.DevicePtr(a))) }

func (native) hostFree(p uintptr) result { return answer(cu.MemFreeHost(pointer(p))) }

func (native) unload(module handle) result { return answer(in[cu.Module](module).Unload()) }

func (native) function(module handle, name string) (handle, result) {
	return out(in[cu.Module](module).Function(name))
}

func (native) functionAttribute(function handle, a kernelAttr) (int, result) {
	v, err := in[cu.Function](function).Attribute(cu.FunctionAttribute(a))
	return v, answer(err)
}

func (native) newStream() (handle, result) {
	least, _, err := cu.StreamPriorityRange()
	if err != nil {
		return 0, answer(err)
	}
	return out(cu.MakeStreamWithPriority(least, cu.NonBlocking))
}

func (native) closeStream(stream handle) result {
	s := in[cu.Stream](stream)
	return answer(s.Destroy())
}

func (native) syncStream(stream handle) result { return answer(in[cu.Stream](stream).Synchronize()) }

func (native) queryStream(stream handle) result { return answer(in[cu.Stream](stream).Query()) }

func (native) copyToDevice(stream handle, dst Address, src []byte) result {
	return answer(cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)),
		in[cu.Stream](stream)))
}

func (native) copyToHost(stream handle, dst []byte, src Address) result {
	return answer(cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)),
		in[cu.Stream](stream)))
}

func (native) copyOnDevice(stream handle, dst, src Address, n int64) result {
	return answer(cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), n, in[cu.Stream](stream)))
}

func (native) fill32(stream handle, dst Address, v uint32, n int64) result {
	return answer(cu.MemsetD32Async(cu.DevicePtr(dst), uint(v), n, in[cu.Stream](stream)))
}

func (native) newEvent(timed bool) (handle, result) {
	flags := cu.BlockingSyncEvent
	if !timed {
		flags |= cu.DisableTiming
	}
	return out(cu.MakeEvent(flags))
}

func (native) closeEvent(event handle) result {
	e := in[cu.Event](event)
	return answer(cu.DestroyEvent(&e))
}

func (native) record(event, stream handle) result {
	return answer(in[cu.Event](event).Record(in[cu.Stream](stream)))
}

func (native) wait(stream, event handle) result {
	return answer(in[cu.Stream](stream).Wait(in[cu.Event](event), 0))
}

func (native) syncEvent(event handle) result { return answer(in[cu.Event](event).Synchronize()) }

func (native) queryEvent(event handle) result { return answer(in[cu.Event](event).Query()) }

func (native) elapsed(from, to handle) (float64, result) {
	ms, err := in[cu.Event](from).Elapsed(in[cu.Event](to))
	return ms, answer(err)
}
