//go:build unix && !linux

package pinned

func adviseHuge([]byte) {}
