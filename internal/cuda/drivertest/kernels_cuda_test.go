//go:build cuda

package drivertest
