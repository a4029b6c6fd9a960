// Package machine finds out what the machine has and who uses it: processor, caches, memory, huge
// pages and limits.
//
// # Basics
//
// Probe asks the system (on Linux by the files under /proc and /sys) and returns a Machine.
//
// # Caveats
//
// Zero means that the system does not say: nothing here fails because a file is missing. Limits are those of the
// moment.
package machine
