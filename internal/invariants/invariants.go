// Package invariants switches on checks of what must hold inside khop: who owns a slot, in which order its states
// follow, that a ledger's sums add up.
//
// # Basics
//
// Enabled is a constant: true with -race or -tags invariants, and false otherwise, where the compiler leaves out what
// stands behind it:
//
//	if invariants.Enabled {
//		invariants.Check(n >= 0, "%d bytes are in use", n)
//	}
//
// # Caveats
//
// A check that fails panics, since what follows would only hide the cause. No check has an effect, and none may be
// relied on.
package invariants

import "fmt"

// Check panics with the text unless ok.
func Check(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
