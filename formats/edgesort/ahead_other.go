//go:build !linux

package edgesort

import "os"

// readAhead is a hint that Linux alone gets.
func readAhead(*os.File, int64, int64) {}
