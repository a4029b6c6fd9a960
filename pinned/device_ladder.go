package pinned

import (
	"fmt"

	"github.com/khop-gnn/khop/device"
)

// Rung is a way for a device to address the bytes of a file or of host memory. The lower the number, the better;
// docs/memory.md describes the ladder.
type Rung uint8

const (
	RungDevice     Rung = 1 + iota // copied to device memory once (Upload)
	RungPageTables                 // pageable memory as it is: the device walks the host's page tables
	RungReadOnly                   // the file's mapping, registered read-only
	RungInPlace                    // files on tmpfs or hugetlbfs and memory of Allocate, registered as they are
	RungCopy                       // copied once to huge pages, which are registered
	RungHostAlloc                  // copied once to memory that the driver allocates
	RungHost                       // not addressed by a device: a plain mapping
)

var rungNames = [...]string{RungDevice: "device memory", RungPageTables: "host page tables",
	RungReadOnly: "file registered read-only", RungInPlace: "registered in place", RungCopy: "copied and registered",
	RungHostAlloc: "copied to memory of the driver", RungHost: "mapped"}

// String describes the rung; "none" for 0, the rung of no bytes.
func (r Rung) String() string {
	if r == 0 {
		return "none"
	} else if int(r) < len(rungNames) {
		return rungNames[r]
	}
	return fmt.Sprintf("rung(%d)", uint8(r))
}

// MarshalText is String.
func (r Rung) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Step is a rung, with the reason against it; Refused is empty for a rung that is possible.
type Step struct {
	Rung    Rung   `json:"rung"`
	Refused string `json:"refused,omitempty"`
}

// Ladder returns the rungs that Attach would try for b on a device, best first, with the reasons against those that are
// known to fail. It changes nothing: it reads attributes of the device and the process's memory map. Without a device
// the answer is RungHost.
func Ladder(dev *device.Device, b []byte) []Step {
	if dev == nil {
		return []Step{{Rung: RungHost}}
	}
	return ladder(factsOf(dev), describe(b))
}

// deviceFacts are the attributes that decide the ladder.
type deviceFacts struct {
	pageTables bool // AttrPageableUsesHostPageTables
	pageable   bool // AttrPageableAccess
	register   bool // AttrHostRegister
	readOnly   bool // AttrReadOnlyRegister
}

func factsOf(dev *device.Device) deviceFacts {
	return deviceFacts{
		pageTables: dev.Attribute(device.AttrPageableUsesHostPageTables) != 0,
		pageable:   dev.Attribute(device.AttrPageableAccess) != 0,
		register:   dev.Attribute(device.AttrHostRegister) != 0,
		readOnly:   dev.Attribute(device.AttrReadOnlyRegister) != 0,
	}
}

func ladder(d deviceFacts, m memory) []Step {
	steps := []Step{{RungPageTables, ""}, {RungReadOnly, m.refuseReadOnly()}, {RungInPlace, m.refuseInPlace()},
		{RungCopy, ""}, {RungHostAlloc, ""}}
	if !d.pageTables {
		steps[0].Refused = "the device does not use the host's page tables (attribute 100 is 0)"
		if d.pageable {
			steps[0].Refused += "; what it has instead moves pages on every fault"
		}
	}
	if steps[1].Refused == "" && !d.readOnly {
		steps[1].Refused = "the driver does not register read-only mappings on this device (attribute 113 is 0)"
	}
	if !d.register {
		for i := 1; i <= 3; i++ {
			steps[i].Refused = "the device does not support registered host memory (attribute 99 is 0)"
		}
	}
	return steps
}

// refuseReadOnly says why m cannot be registered where it lies for a device that only reads.
func (m *memory) refuseReadOnly() string {
	switch {
	case m.kind == memoryUnknown:
		return m.why
	case m.kind != memoryFile:
		return "not a mapped file"
	case !m.shared:
		return "a private mapping of a file: registering it copies the file into memory"
	case m.writable:
		return "a file mapped for writing: the device would only need to read"
	}
	return ""
}

// refuseInPlace says why m cannot be registered for reading and writing where it lies.
func (m *memory) refuseInPlace() string {
	switch {
	case m.kind == memoryUnknown:
		return m.why
	case m.kind == memoryForeign:
		return "memory that was not taken with pinned.Allocate: it may belong to the Go heap"
	case m.kind == memoryOwn:
		return ""
	case !m.shared:
		return "a private mapping of a file: registering it copies the file into memory"
	case m.fs != "tmpfs" && m.fs != "hugetlbfs":
		return "the file is not on tmpfs or hugetlbfs: Linux does not pin pages of other files for writing"
	}
	return ""
}
