//go:build !linux

package disk

import "errors"

func newRing(*Reader) (engine, error) { return nil, errors.New("the system has no io_uring") }
