//go:build !linux && !darwin

package remote

import "errors"

const canProtect = false

func protect([]byte, bool) error { return errors.ErrUnsupported }
