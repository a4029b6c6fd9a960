//go:build !(cuda && cgo && linux && (amd64 || arm64))

package meters

import "errors"

func openBoard(string) (board, error) {
	return nil, errors.New("board energy: this program was built without -tags cuda")
}
