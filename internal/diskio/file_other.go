//go:build !linux

package diskio

import (
	"errors"
	"os"
)

func (f *File) goDirect() error { return errors.New("khop reads past the page cache on Linux only") }

func createHidden(string) (*os.File, error) { return nil, errors.New("khop packs rows on Linux only") }
