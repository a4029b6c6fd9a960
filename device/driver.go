package device

// driver is what a CUDA driver offers, one method a call, with the driver's own codes: over gorgonia.org/cu
// (driver_cuda.go), without a device (driver_none.go), or a test's.
//
// Calls below the line need the context of their device to be current on the calling thread; Device.do sees to that.
type driver interface {
	missing() string // why no driver was loaded or started; "" if one was
	version() (int, result)
	count() (int, result)
	describe(result) (name, text string)

	name(ordinal int) (string, result)
	uuid(ordinal int) (id [16]byte, part bool, code result) // part: it is a MIG instance
	attribute(ordinal int, a Attr) (int, result)
	retain(ordinal int) (handle, result)
	release(ordinal int) result
	canReach(ordinal, other int) (bool, result) // memory of the other device
	current() (context handle, code result)     // of the calling thread; 0: none
	push(context handle) result                 // makes it the thread's current one
	pop() result                                // undoes the push

	// ---
	reach(other handle) result // lets kernels of the current context use memory of another one's device
	memory() (free, total int64, code result)

	alloc(n int64) (Address, result)
	free(a Address) result
	hostAlloc(n int64) (uintptr, result)
	hostFree(p uintptr) result
	register(p uintptr, n int64, readOnly bool) result
	unregister(p uintptr) result
	hostAddress(p uintptr) (Address, result)
	pointer(a Address) (PointerInfo, result)

	exportMemory(a Address) (IPCHandle, result)
	importMemory(h IPCHandle) (Address, result)
	closeMemory(a Address) result

	load(image []byte) (module handle, log string, code result) // log: what the assembler says of an error
	unload(module handle) result
	function(module handle, name string) (handle, result)
	functionAttribute(function handle, a kernelAttr) (int, result)
	launch(function, stream handle, grid, block, shared int, argument []byte) result

	newStream() (handle, result)
	closeStream(stream handle) result
	syncStream(stream handle) result
	queryStream(stream handle) result
	copyToDevice(stream handle, dst Address, src []byte) result
	copyAll(stream handle, c *Copies) result
	copyToHost(stream handle, dst []byte, src Address) result
	copyOnDevice(stream handle, dst, src Address, n int64) result
	fill32(stream handle, dst Address, v uint32, n int64) result

	newEvent(timed bool) (handle, result)
	closeEvent(event handle) result
	record(event, stream handle) result
	wait(stream, event handle) result
	syncEvent(event handle) result
	queryEvent(event handle) result
	elapsed(from, to handle) (milliseconds float64, code result)

	beginCapture(stream handle) result
	endCapture(stream handle) (graph handle, code result)
	instantiate(graph handle) (executable handle, code result)
	launchGraph(executable, stream handle) result
	closeGraph(graph, executable handle) result
}

// handle is one of the driver's pointers (CUcontext, CUmodule, CUfunction, CUstream, CUevent, CUgraph, CUgraphExec).
type handle uintptr

// kernelAttr is a CUfunction_attribute.
type kernelAttr int

const (
	kernelMaxThreads   kernelAttr = 0
	kernelSharedBytes  kernelAttr = 1
	kernelLocalBytes   kernelAttr = 3
	kernelNumRegisters kernelAttr = 4
)
