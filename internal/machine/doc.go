// Package machine finds out what the machine offers and what the process uses of it: processor, caches, memory, huge
// pages, limits, and how fast it copies.
//
// # Basics
//
// Probe reads what the system tells (on Linux the files under /proc and /sys) into a Machine. ReadUsage says how much
// memory the process holds now, anonymous and file-backed apart. CopyRate measures how fast several goroutines copy,
// which is the bound that row gathering is compared with.
//
// # Caveats
//
// What a system does not tell is left at zero, which means unknown: nothing here fails because a file is missing.
// Limits are those of the moment.
package machine
