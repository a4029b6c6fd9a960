//go:build !linux

package server

// WatchProcess does nothing here.
func WatchProcess(pid int, gone func()) (stop func()) { return func() {} }
