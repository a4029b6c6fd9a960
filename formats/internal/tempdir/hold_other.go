//go:build !linux && !darwin

package tempdir

import "os"

func hold(string) (*os.File, error) { return nil, nil }

func sweep(string, string) {}
