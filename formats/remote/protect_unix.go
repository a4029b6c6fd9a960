//go:build linux || darwin

package remote

import "golang.org/x/sys/unix"

// canProtect says that the system protects pages.
const canProtect = true

// protect lets pages of a mapped file be read, or not. b begins on a page.
func protect(b []byte, readable bool) error {
	how := unix.PROT_NONE
	if readable {
		how = unix.PROT_READ
	}
	return unix.Mprotect(b, how)
}
