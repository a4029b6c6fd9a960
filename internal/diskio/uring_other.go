//go:build !linux

package diskio

import "errors"

func newRing(*Reader) (engine, error) { return nil, errors.New("the system has no io_uring") }
