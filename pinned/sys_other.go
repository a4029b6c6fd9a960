//go:build !linux

package pinned

import (
	"errors"
	"os"
)

func populate([]byte) error { return errors.ErrUnsupported }

const soon, atRandom, inOrder, onHugePages = 0, 0, 0, 0

func hint([]byte, uintptr) {}

func fileSystem(string) string { return "" }

func mapWritable(memory) ([]byte, error) { return nil, errors.ErrUnsupported }

func preferNode([]byte, int) error { return errors.ErrUnsupported }

func adviseHuge([]byte) {}

func (*memory) isOf(*os.File) error { return errors.ErrUnsupported }
