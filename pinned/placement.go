package pinned

import "fmt"

// Placement says which memory holds some bytes, and with that which processors address them.
type Placement uint8

const (
	Host   Placement = iota // pageable host memory, including mapped files
	Pinned                  // page-locked host memory that a device addresses
	Device                  // device memory: the host cannot read it
)

var placementNames = [...]string{"host", "pinned", "device"}

// String returns the placement's name.
func (p Placement) String() string {
	if int(p) < len(placementNames) {
		return placementNames[p]
	}
	return fmt.Sprintf("placement(%d)", uint8(p))
}
