//go:build !linux

package disk

import "errors"

func (f *File) goDirect() error { return errors.New("khop reads past the page cache on Linux only") }
