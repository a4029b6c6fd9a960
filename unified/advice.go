package unified

import (
	"errors"
	"unsafe"

	"github.com/khop-gnn/khop/device"
)

// Advice says how a processor will use a tensor.
type Advice uint8

const (
	ReadMostly        Advice = iota // read often and written rarely, by any processor: copies may be kept
	PreferredLocation               // pages should lie in the processor's memory
	AccessedBy                      // the processor will read it: keep it mapped there
)

// Advise tells the driver how p will use the tensor. It never changes an element. Advice that has no effect returns no
// error.
//
// It has an effect only on host memory, mapped files among it, that a device reaches by page faults
// (AttrPageableAccess); device memory and page-locked memory stay where they are. khop itself takes no managed memory.
// Errors: those of a device that is lost or closed.
func (t Tensor) Advise(p *Processor, a Advice) error {
	if p.dev == nil || t.placement == Device || len(t.data) == 0 || p.dev.Attribute(device.AttrPageableAccess) == 0 {
		return nil
	}
	what := map[Advice]device.Advice{ReadMostly: device.AdviseReadMostly,
		PreferredLocation: device.AdvisePreferredLocation, AccessedBy: device.AdviseAccessedBy}[a]
	at := device.Address(uintptr(unsafe.Pointer(unsafe.SliceData(t.data))))
	err := p.dev.Advise(at, int64(len(t.data)), what, device.Location(p.dev.Ordinal()))
	if errors.Is(err, device.ErrInvalidValue) || errors.Is(err, device.ErrNotSupported) {
		return nil // page-locked memory, or a driver that gives no advice on pageable memory
	}
	return err
}
