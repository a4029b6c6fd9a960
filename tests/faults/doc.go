// Package faults holds tests that run khop as a process and let the system fail under it.
//
// # Basics
//
// The tests trace khop's system calls, on Linux on amd64. One gives an error in place of each call in turn, or a short
// read or write, or kills khop before it. Another logs what khop writes and syncs, and replays the log up to every
// sync, as a loss of power might leave the disk. A third runs khop on disks that fail, are full or slow.
//
// "go test" runs few of them, "make fault-test" all. docs/results/faults.md has what they found.
package faults
