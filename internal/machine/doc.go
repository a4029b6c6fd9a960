// Package machine finds out what the machine has and what the process uses of it: processor, caches, memory, huge
// pages and limits.
//
// # Basics
//
// Probe asks the system (on Linux by the files under /proc and /sys) and returns a Machine. ReadUsage says how much
// memory the process holds now.
//
// # Caveats
//
// Zero means that the system does not say: nothing here fails because a file is missing. Limits are those of the
// moment.
package machine
