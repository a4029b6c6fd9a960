package device

import (
	"fmt"
)

// Reach lets kernels of d read and write the memory of another device, over NVLink or the bus, as long as both are open
// somewhere in the process. It does not let other reach d. A device has a limited number of such peers: 8 without
// NVSwitch. A second call does nothing.
//
// It fails with code 217 where the two devices, the system or a virtual machine do not allow it; with drivers of CUDA
// 13.5 and later also where an IOMMU or PCIe access control separates them.
func (d *Device) Reach(other *Device) error {
	if d.ordinal == other.ordinal {
		return nil
	}
	op := fmt.Sprintf("let cuda:%d at the memory of cuda:%d", d.ordinal, other.ordinal)
	return d.do(op, func() result {
		switch can, code := drv.canReach(d.ordinal, other.ordinal); {
		case code != success:
			return code
		case !can:
			return codeNoPeer
		}
		code := drv.reach(other.context)
		if code == codeReached { // by an earlier call, or by another library
			return success
		}
		return code
	})
}
