package device

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Module is a loaded set of kernels. The zero value is not usable.
type Module struct {
	device *primary
	h      atomic.Uintptr

	// Cubin is the architecture, such as 80, of the loaded code, if it was assembled when the program was built; 0 if
	// the driver assembled the PTX. Refused is then the driver's reason against a cubin; nil if there was no cubin.
	Cubin   int
	Refused error
}

// Kernel is a function of a module. It is valid as long as the module.
type Kernel struct {
	launchOp string
	h        handle

	// Registers a thread, bytes of static shared memory a block, bytes of local memory (spills) a thread, and the
	// largest number of threads a block, as the driver assembled it for this device.
	Registers, Shared, Local, MaxThreads int
}

// LoadKernels loads PTX text or a cubin, and sets each of the pointers to the kernel of that name. After an error
// nothing stays loaded. Close the module. If the program was built with a cubin of this PTX for this device (-tags
// cubins), LoadKernels loads the cubin, which the driver need not assemble; if the driver refuses it, the PTX. Errors
// are the message of the driver's assembler, and code 500 for a kernel that the image does not have.
func (d *Device) LoadKernels(image []byte, kernels map[string]**Kernel) (*Module, error) {
	if !hasDriver { // it is short, so that where no driver is built in the linker leaves the images out, too
		return nil, errNoKernels
	}
	return d.loadKernels(image, kernels)
}

// LoadPacked is LoadKernels for a member of a ZIP file, such as rows.ptx of the kernels.ptx.zip that tools/ptx writes.
// It decompresses the member once, when the first device loads it, and keeps the text, so pack must not change.
func (d *Device) LoadPacked(pack []byte, member string, kernels map[string]**Kernel) (*Module, error) {
	if !hasDriver {
		return nil, errNoKernels
	}
	return d.loadPacked(pack, member, kernels)
}

func (d *Device) loadPacked(pack []byte, member string, kernels map[string]**Kernel) (*Module, error) {
	image, err := unpack(pack, member)
	if err != nil {
		return nil, fmt.Errorf("packed kernels %s: %w", member, err)
	}
	return d.loadKernels(image, kernels)
}

var errNoKernels = errors.New("kernels in a build without CUDA")

func (d *Device) loadKernels(image []byte, kernels map[string]**Kernel) (*Module, error) {
	m, err := d.loadBest(image)
	if err != nil {
		return nil, err
	}
	for name, to := range kernels {
		if *to, err = m.kernel(name); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	return m, nil
}

// loadBest loads the cubin that the program has in place of an image, else the image.
func (d *Device) loadBest(image []byte) (*Module, error) {
	major, minor := d.Compute()
	cubin, arch := cubinOf(image, major, minor)
	if cubin == nil {
		return d.load(image)
	}
	m, err := d.load(cubin)
	if err == nil {
		m.Cubin = arch
		return m, nil
	} else if !errors.Is(err, errInvalidImage) {
		return nil, err
	}
	refused := fmt.Errorf("cubin for sm_%d: %w", arch, err)
	if m, err = d.load(image); err != nil {
		return nil, errors.Join(refused, err)
	}
	m.Refused = refused
	return m, nil
}

func (d *Device) load(image []byte) (*Module, error) {
	m, op := &Module{device: d.primary}, fmt.Sprintf("load kernels (%d bytes)", len(image))
	log := ""
	_, err := made(d, m, &m.h, op, func() (h handle, code result) {
		h, log, code = drv.load(image)
		return h, code
	})
	if e := (*Error)(nil); log != "" && errors.As(err, &e) {
		e.Text += ": " + log
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Code describes what was loaded: "cubin for sm_80", or "PTX, assembled by the driver" and why no cubin.
func (m *Module) Code() string {
	switch {
	case m.Cubin > 0:
		return fmt.Sprintf("cubin for sm_%d", m.Cubin)
	case m.Refused != nil:
		return fmt.Sprintf("PTX, assembled by the driver, which refused what was there: %v", m.Refused)
	}
	return "PTX, assembled by the driver"
}

func (m *Module) kernel(name string) (*Kernel, error) {
	h := m.h.Load()
	k := &Kernel{launchOp: "launch kernel " + name}
	err := m.device.do("find kernel "+name, func() (code result) {
		if k.h, code = drv.function(handle(h), name); code != success {
			return code
		}
		for a, to := range map[kernelAttr]*int{kernelMaxThreads: &k.MaxThreads, kernelSharedBytes: &k.Shared,
			kernelLocalBytes: &k.Local, kernelNumRegisters: &k.Registers} {
			if *to, code = drv.functionAttribute(k.h, a); code != success {
				return code
			}
		}
		return success
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Launcher is a kernel with the Go type of its argument, which has no Go pointers. tools/ptx writes both from the
// kernel's source.
type Launcher[A any] struct{ *Kernel }

// Launch puts the kernel on a stream: grid blocks of block threads, where 0 counts as 1, with shared bytes of dynamic
// shared memory. argument is the kernel's only parameter; it is copied before Launch returns.
func (l Launcher[A]) Launch(s *Stream, grid, block, shared int, argument A) error {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&argument)), unsafe.Sizeof(argument))
	return s.do(l.launchOp, func(h handle) result {
		return drv.launch(l.h, h, max(grid, 1), max(block, 1), shared, bytes)
	})
}

// Close unloads the kernels. None of them may be running. A second Close does nothing.
func (m *Module) Close() error {
	h := m.h.Swap(0)
	if h == 0 {
		return nil
	}
	return m.device.dispose("unload kernels", func() result { return drv.unload(handle(h)) })
}
