package device

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Device is a GPU that was opened. It is safe for concurrent use.
//
// All Devices of one ordinal share the device's primary context. The CUDA runtime in this process, and so PyTorch, uses
// the same one. The package never destroys it; the last Close releases it.
type Device struct {
	*primary
	closed atomic.Bool
}

// primary is a retained primary context. What outlives a Device, such as registered memory, holds it too.
type primary struct {
	ordinal int
	context handle
	name    string
	uuid    string
	sms     int
	lost    atomic.Pointer[Error] // the first fault
	holders int                   // guarded by primaries
}

var primaries struct {
	sync.Mutex
	open map[int]*primary
}

// Open retains the primary context of device ordinal, 0 to Count()-1, until Close. It fails with an error that wraps
// ErrNoDevice, and says why, if there is no such device or it is older than compute capability 7.0.
func Open(ordinal int) (*Device, error) {
	if s := start(); s.reason != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoDevice, s.reason)
	} else if ordinal < 0 || ordinal >= s.count {
		return nil, fmt.Errorf("%w cuda:%d: the driver reports %d", ErrNoDevice, ordinal, s.count)
	}
	p, err := hold(ordinal)
	if err != nil {
		return nil, err
	}
	return &Device{primary: p}, nil
}

// OpenAt opens the device that device memory at an address belongs to. It makes no context on a device that the process
// does not use yet: that would take time and device memory, or be refused.
func OpenAt(a Address) (*Device, error) {
	d, err := Open(anyOpen())
	if err != nil {
		return nil, err
	}
	info, err := d.Pointer(a)
	if err == nil && info.Ordinal == d.ordinal {
		return d, nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	return Open(info.Ordinal)
}

// anyOpen returns the number of a device that is open, else 0: any can be asked about all.
func anyOpen() int {
	primaries.Lock()
	defer primaries.Unlock()
	for ordinal := range primaries.open {
		return ordinal
	}
	return 0
}

// hold returns the context of a device, retained once more.
func hold(ordinal int) (*primary, error) {
	primaries.Lock()
	defer primaries.Unlock()
	p := primaries.open[ordinal]
	if p == nil {
		var err error
		if p, err = retain(ordinal); err != nil {
			return nil, err
		}
		if primaries.open == nil {
			primaries.open = map[int]*primary{}
		}
		primaries.open[ordinal] = p
	}
	p.holders++
	return p, nil
}

func retain(ordinal int) (*primary, error) {
	p := &primary{ordinal: ordinal}
	p.name, _ = drv.name(ordinal)
	p.uuid = uuidText(drv.uuid(ordinal))
	p.sms, _ = drv.attribute(ordinal, attrMultiprocessors)
	major, _ := drv.attribute(ordinal, attrComputeMajor)
	minor, _ := drv.attribute(ordinal, attrComputeMinor)
	if 10*major+minor < minCompute {
		return nil, fmt.Errorf("%w: cuda:%d (%s) has compute capability %d.%d, 7.0 or later is needed", ErrNoDevice,
			ordinal, p.name, major, minor)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var code result
	if p.context, code = drv.retain(ordinal); code != success {
		return nil, failure(fmt.Sprintf("open cuda:%d (%s)", ordinal, p.name), code)
	}
	return p, nil
}

// letGo gives up one hold on the context and releases it with the last.
func (p *primary) letGo() error {
	primaries.Lock()
	defer primaries.Unlock()
	if p.holders--; p.holders > 0 {
		return nil
	}
	delete(primaries.open, p.ordinal)
	return p.quiet(failure(fmt.Sprintf("release cuda:%d", p.ordinal), drv.release(p.ordinal)))
}

// Close releases the context, if this was the last Device of its ordinal. A second Close does nothing. Everything that
// the Device made must have been closed or freed before.
func (d *Device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	return d.letGo()
}

// do runs a driver call with the context current on a thread of its own, and leaves the thread as it found it.
func (p *primary) do(op string, call func() result) error {
	if err := p.fault(); err != nil {
		return err
	}
	return p.force(op, call)
}

// force is do on a device that may be lost: freeing is worth trying.
func (p *primary) force(op string, call func() result) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := failure(op, p.within(call))
	if e := (*Error)(nil); errors.As(err, &e) {
		e.lost = e.Code == codeUnknown && p.within(func() result { return drv.queryStream(0) }) == codeUnknown
		if errors.Is(e, ErrDeviceLost) {
			p.lost.CompareAndSwap(nil, e)
		}
	}
	return err
}

// within runs a call with the context current on this thread. Another one that was current, which a program with
// contexts of its own relies on, is current again afterwards; if no context was, none is.
func (p *primary) within(call func() result) result {
	before, code := drv.current()
	if code != success {
		return code
	}
	if before == p.context {
		return call()
	}
	if code = drv.push(p.context); code != success {
		return code
	}
	// what this may report is a fault of before, which is not the call's and which the next one reports too
	defer drv.pop()
	return call()
}

// dispose runs a call that frees something. On a lost device it succeeds: nothing more can be done.
func (p *primary) dispose(op string, call func() result) error {
	return p.quiet(p.force(op, call))
}

func (p *primary) quiet(err error) error {
	if p.lost.Load() == nil {
		return err
	}
	return nil
}

// fault returns why the device is lost.
func (p *primary) fault() error {
	if e := p.lost.Load(); e != nil {
		return fmt.Errorf("cuda:%d is lost since an earlier error: %w", p.ordinal, e)
	}
	return nil
}

// do is the same, and refuses a closed Device.
func (d *Device) do(op string, call func() result) error {
	if d.closed.Load() {
		return closedError("device")
	}
	return d.primary.do(op, call)
}

// ask is do for a call that yields something.
func ask[T any](d *Device, op string, call func() (T, result)) (v T, err error) {
	err = d.do(op, func() (code result) {
		v, code = call()
		return code
	})
	return v, err
}

// made returns v, with the handle that a call yields kept in h.
func made[T any](d *Device, v *T, h *atomic.Uintptr, op string, call func() (handle, result)) (*T, error) {
	got, err := ask(d, op, call)
	if err != nil {
		return nil, err
	}
	h.Store(uintptr(got))
	return v, nil
}

// Ordinal returns the number of the device: 1 for cuda:1.
func (d *Device) Ordinal() int { return d.ordinal }

// Name returns what the driver calls the device, such as "NVIDIA H200".
func (d *Device) Name() string { return d.name }

// UUID returns the device's name that is the same in every process, in the form of nvidia-smi: GPU-, or MIG- for a MIG
// instance, and 32 hexadecimal digits in five groups. Ordinals count the devices in CUDA_VISIBLE_DEVICES, so they
// differ between processes. UUID is empty if the driver does not report it.
func (d *Device) UUID() string { return d.uuid }

func uuidText(id [16]byte, part bool, code result) string {
	if code != success {
		return ""
	}
	kind := "GPU"
	if part {
		kind = "MIG"
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// Named returns the ordinal of the device with a UUID, or -1 if this process sees no such device.
func Named(uuid string) int {
	for ordinal := range Count() {
		if uuid != "" && uuidText(drv.uuid(ordinal)) == uuid {
			return ordinal
		}
	}
	return -1
}

// SMs returns how many streaming multiprocessors the device has.
func (d *Device) SMs() int { return d.sms }

// Attribute returns an attribute of the device, 0 if the driver does not know it.
func (d *Device) Attribute(a Attr) int {
	v, code := drv.attribute(d.ordinal, a)
	if code != success {
		return 0
	}
	return v
}

// Compute returns the compute capability: 9 and 0 for 9.0.
func (d *Device) Compute() (major, minor int) {
	return d.Attribute(attrComputeMajor), d.Attribute(attrComputeMinor)
}

// PCI returns where the device is on the bus.
func (d *Device) PCI() (domain, bus, device int) {
	return d.Attribute(attrPCIDomain), d.Attribute(attrPCIBus), d.Attribute(attrPCIDevice)
}

// Memory returns the free and the total bytes of device memory. Other processes may take the free ones at any time.
func (d *Device) Memory() (free, total int64, err error) {
	err = d.do("read the device's memory", func() (code result) {
		free, total, code = drv.memory()
		return code
	})
	return free, total, err
}
