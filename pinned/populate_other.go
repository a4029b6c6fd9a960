//go:build !linux

package pinned

import "errors"

// Populate reads the pages that b touches, in order, and enters them in the page table, so that the first random read
// of each costs no fault. b may be part of a mapped file; nothing is written. errors.ErrUnsupported where the system
// cannot (Linux can from 5.14 on), ErrFault where a file was cut short.
func Populate([]byte) error { return errors.ErrUnsupported }
