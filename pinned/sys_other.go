//go:build !linux

package pinned

import (
	"errors"
	"os"
)

// Populate reads pages ahead on Linux alone; here it returns errors.ErrUnsupported.
func Populate([]byte) error { return errors.ErrUnsupported }

// ReadAhead is a hint that Linux alone gets.
func ReadAhead([]byte) {}

// ReadAtRandom is a hint that Linux alone gets.
func ReadAtRandom([]byte) {}

// ReadInOrder takes back ReadAtRandom.
func ReadInOrder([]byte) {}

func fileSystem(string) string { return "" }

func mapWritable(memory) ([]byte, error) { return nil, errors.ErrUnsupported }

func preferNode([]byte, int) error { return errors.ErrUnsupported }

func adviseHuge([]byte) {}

func (*memory) isOf(*os.File) error { return errors.ErrUnsupported }
