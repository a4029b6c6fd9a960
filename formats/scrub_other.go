//go:build !linux

package formats

import "os"

func lowerPriority() {}

func adviseRandom(*os.File) {}

func adviseMapped([]byte) {}

func keepCache(*os.File, []byte, int64, int64) (restore func()) { return func() {} }
