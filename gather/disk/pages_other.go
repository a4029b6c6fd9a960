//go:build !linux

package disk

import "os"

func readAtRandom(*os.File) {}
