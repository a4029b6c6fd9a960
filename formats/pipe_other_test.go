//go:build !unix

package formats

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
