package device

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
)

// cubins has the kernels that were assembled when the program was built (-tags cubins), else it is nil. For PTX whose
// SHA-256 begins with H and compute capability 8.0 it has the file cubins/H.sm_80.cubin, which tools/ptx/cubins.py
// writes.
var cubins fs.FS

// cubinOf returns what kernels in PTX were assembled to for a device of this compute capability, or for one of the same
// major number and a lower minor one, whose code it runs; nil where nothing fits.
func cubinOf(ptx []byte, major, minor int) (cubin []byte, arch int) {
	if cubins == nil || bytes.HasPrefix(ptx, []byte("\x7fELF")) {
		return nil, 0
	}
	hash := sha256.Sum256(ptx)
	for ; minor >= 0; minor-- {
		arch = 10*major + minor
		if b, err := fs.ReadFile(cubins, fmt.Sprintf("cubins/%x.sm_%d.cubin", hash[:8], arch)); err == nil {
			return b, arch
		}
	}
	return nil, 0
}
