//go:build !linux

package arrayfile

import "os"

func reserveSpace(*os.File, int64) error { return nil }

func sendToDisk(*os.File, int64, int64) {}
