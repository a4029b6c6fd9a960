package device

import (
	"errors"
	"fmt"
	"sync"
)

// registrations counts what is registered in the process, by address: the driver refuses a range that is registered
// already, and two loaders may share a file.
var registrations struct {
	sync.Mutex
	at map[uintptr]*registration
}

type registration struct {
	n        int64
	readOnly bool
	count    int
	owner    *primary // held until the last Unregister
}

// Register page-locks b and lets kernels of all devices of the process address it, until Unregister. b must be outside
// the Go heap and stay mapped. readOnly says that devices only read: mappings without PROT_WRITE need it (see
// AttrReadOnlyRegister). The same range may be registered again; each Register needs an Unregister. A range that
// overlaps another one without being equal to it fails with code 712. An empty b does nothing.
//
// The call takes about 0.1 s a GB, and holds the process's memory map meanwhile: register large files in pieces.
func (d *Device) Register(b []byte, readOnly bool) error {
	if len(b) == 0 {
		return nil
	}
	at, n := start0(b), int64(len(b))
	op := fmt.Sprintf("register %d bytes of host memory", n)
	registrations.Lock()
	defer registrations.Unlock()
	if r := registrations.at[at]; r != nil && r.n == n && r.readOnly == readOnly {
		r.count++
		return nil
	}
	owner, err := hold(d.ordinal)
	if err != nil {
		return err
	}
	if err := d.do(op, func() result { return drv.register(at, n, readOnly) }); err != nil {
		return errors.Join(err, owner.letGo())
	}
	if registrations.at == nil {
		registrations.at = map[uintptr]*registration{}
	}
	registrations.at[at] = &registration{n, readOnly, 1, owner}
	return nil
}

// Unregister undoes one Register of the same range. It fails with code 713 if there was none. No kernel may
// still use the memory.
func (d *Device) Unregister(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	at := start0(b)
	op := fmt.Sprintf("unregister %d bytes of host memory", len(b))
	registrations.Lock()
	defer registrations.Unlock()
	r := registrations.at[at]
	if r == nil || r.n != int64(len(b)) {
		return failure(op, codeNotRegistered)
	}
	if r.count--; r.count > 0 {
		return nil
	}
	delete(registrations.at, at)
	err := r.owner.dispose(op, func() result { return drv.unregister(at) })
	if e := r.owner.letGo(); err == nil {
		err = e
	}
	return err
}
