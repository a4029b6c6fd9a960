// Package rngtest tests the generator's device code, internal/rng/rng.cuh and subset.cuh, against package rng. It holds
// kernels and their launchers for its tests, and nothing that a program imports.
package rngtest
