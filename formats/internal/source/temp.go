package source

import (
	"fmt"
	"os"
	"runtime"
)

// TempFile makes a temporary file. Its path is empty where it has no name: then it is gone when the process ends,
// however that is.
func TempFile(b *Budget) (*os.File, string, error) {
	if f := createHidden(b.dir()); f != nil {
		return f, "", nil
	}
	f, err := os.CreateTemp(b.dir(), ".khop-edges-*.tmp")
	if err != nil {
		return nil, "", fmt.Errorf("make a temporary file beside the target: %w", err)
	}
	if runtime.GOOS == "linux" && os.Remove(f.Name()) == nil {
		return f, "", nil
	}
	return f, f.Name(), nil
}
