// Package drivertest tests device on a device, or on the simulated one, with kernels of its own. It exports nothing.
package drivertest
