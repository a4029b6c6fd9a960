package device

import (
	"fmt"
	"sync"
)

// minVersion is the oldest driver that loads the embedded PTX (ISA 7.8): CUDA 11.8, driver branch R520.
const minVersion = 11080

// minCompute is the oldest compute capability that the PTX is made for, times 10.
const minCompute = 70

// state says how many devices are usable, or why none is, as start has found it once.
type state struct {
	version, count int
	versionErr     error
	reason         string
}

var start = sync.OnceValue(func() state { return probe(drv) })

func probe(d driver) state {
	if why := d.missing(); why != "" {
		return state{reason: why, versionErr: fmt.Errorf("%w: %s", ErrNoDevice, why)}
	}
	var s state
	var code result
	if s.version, code = d.version(); code != success {
		s.versionErr = failure("read the driver's version", code)
		s.reason = s.versionErr.Error()
		return s
	}
	if s.version < minVersion {
		s.reason = fmt.Sprintf("the NVIDIA driver is too old: it supports CUDA %s, %s is needed (driver 520 or later)",
			versionText(s.version), versionText(minVersion))
		return s
	}
	if s.count, code = d.count(); code != success && code != codeNoDevice {
		s.count, s.reason = 0, failure("count devices", code).Error()
	} else if s.count <= 0 {
		s.count, s.reason = 0, "the NVIDIA driver reports no device"
	}
	return s
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Count returns how many devices Open can open, when it is first called; devices that appear later do not count.
func Count() int { return start().count }

// Reason says, in a sentence without a full stop, why Count is 0; it is empty if there are devices.
func Reason() string { return start().reason }

// DriverVersion returns the CUDA version that the driver supports, as 1000*major + 10*minor: 12040 is CUDA 12.4. It
// fails with ErrNoDevice where there is no driver.
func DriverVersion() (int, error) { s := start(); return s.version, s.versionErr }
