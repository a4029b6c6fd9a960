//go:build !linux

package machine

func processors() map[int]bool { return nil }
