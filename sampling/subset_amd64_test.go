//go:build !purego

package sampling

var machineHasSubset16 = haveSubset16

// setSubset16 turns the vector kernel on or off, and reports whether the machine can.
func setSubset16(have bool) bool {
	haveSubset16 = have
	return !have || machineHasSubset16
}
