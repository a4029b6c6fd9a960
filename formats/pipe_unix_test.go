//go:build unix

package formats

import "syscall"

func makePipe(path string) error { return syscall.Mkfifo(path, 0o666) }
