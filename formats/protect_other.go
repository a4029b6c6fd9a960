//go:build !linux && !darwin

package formats

import "errors"

const canProtect = false

func protect([]byte, bool) error { return errors.ErrUnsupported }
