// Package gpu measures a CUDA device: its bus, row gather over it, and what loading by it saves. The program in the
// folder gpubench runs it, and is part of the bundle that "make gpu-bundle" writes; docs/gpu-bundle.md says how to
// run it, and README.md what each phase measures and what each figure is.
//
// # Basics
//
// Run executes one measurement and returns what is printed as JSON. Each brings its own memory, measures the bus first,
// and compares copied bytes with the host's.
//
// # Caveats
//
// Figures of the simulated device are those of a program that counts accesses on the CPU: they prove that the
// measurement runs. Results then say "simulated".
package gpu
