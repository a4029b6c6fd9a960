//go:build !linux

package pinned

import "errors"

// fileSystem is not known.
func fileSystem(string) string { return "" }

func mapWritable(memory) ([]byte, error) { return nil, errors.ErrUnsupported }

func preferNode([]byte, int) error { return errors.ErrUnsupported }
