//go:build !(cuda && cgo && linux && (amd64 || arm64)) || libkhop

package meters

// A shared library has none of it either: NVML's functions are found when they are first called, and who loads a
// library may ask for all of them at once.

import "errors"

func openBoard(string) (board, error) {
	return nil, errors.New("board energy: this program was built without -tags cuda")
}
