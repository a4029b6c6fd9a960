//go:build !linux

package expect

// ScratchInMemory does nothing here: only Linux is known to have a folder in memory.
func ScratchInMemory() {}
