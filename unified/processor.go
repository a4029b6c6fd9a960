package unified

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/khop-gnn/khop/device"
)

// Processor computes on tensors: the CPU, or an open CUDA device. It is safe for concurrent use. Close it after all
// that was moved to it.
type Processor struct {
	dev *device.Device // nil is the CPU
}

// ParseDevice reads "cpu" as -1, "cuda" as 0 and "cuda:2" as 2. It opens nothing.
func ParseDevice(name string) (ordinal int, err error) {
	switch rest, numbered := strings.CutPrefix(name, "cuda:"); {
	case name == "cpu":
		return -1, nil
	case name == "cuda":
		return 0, nil
	case numbered:
		if n, err := strconv.ParseUint(rest, 10, 16); err == nil {
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("unknown device %q: give cpu, cuda, or cuda and a number such as cuda:0", name)
}

// OpenDevice opens "cpu", "cuda" (the first device) or "cuda:N". The error wraps device.ErrNoDevice where there is no
// such device and says why. The caller closes it.
func OpenDevice(name string) (*Processor, error) {
	ordinal, err := ParseDevice(name)
	if err != nil || ordinal < 0 {
		return &Processor{}, err
	}
	dev, err := device.Open(ordinal)
	if err != nil {
		return nil, err
	}
	return &Processor{dev: dev}, nil
}

// CUDA returns the device for calls that take one; nil of the CPU. It belongs to the Processor.
func (p *Processor) CUDA() *device.Device { return p.dev }

// String returns "cpu", or the device's number: "cuda:0".
func (p *Processor) String() string {
	if p.dev == nil {
		return "cpu"
	}
	return fmt.Sprintf("cuda:%d", p.dev.Ordinal())
}

// Close closes the device. Later calls do nothing.
func (p *Processor) Close() error {
	if p.dev == nil {
		return nil
	}
	return p.dev.Close()
}

// Unified is memory that the host and the processor both address: page-locked host memory of a device, host memory of
// the CPU.
func (p *Processor) Unified() Target { return p.target(Pinned) }

// Memory is the processor's own memory: device memory of a device, host memory of the CPU.
func (p *Processor) Memory() Target { return p.target(Device) }

func (p *Processor) target(place Placement) Target {
	if p.dev == nil {
		return Target{}
	}
	return Target{p.dev, place}
}

// Target is a place to move tensors to. The zero value is pageable host memory.
type Target struct {
	dev   *device.Device
	place Placement
}

// Placement returns the placement of tensors that were moved there.
func (t Target) Placement() Placement { return t.place }
