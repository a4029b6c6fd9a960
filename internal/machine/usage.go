package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// Usage is the memory that the process holds.
type Usage struct {
	Anonymous int64 // RssAnon + RssShmem: memory that is its own and cannot be had again from a file
	File      int64 // RssFile: pages of mapped files that it has touched, which the kernel can take back
	Peak      int64 // VmHWM: the most that both ever were together
}

// ReadUsage returns what the process holds now; errors.ErrUnsupported where the system does not tell.
func ReadUsage() (Usage, error) { return readUsage(os.DirFS("/")) }

func readUsage(root fs.FS) (Usage, error) {
	s := keyed(root, "proc/self/status")
	if _, ok := s["RssAnon"]; !ok {
		return Usage{}, fmt.Errorf("memory in use: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	return Usage{Anonymous: s["RssAnon"] + s["RssShmem"], File: s["RssFile"], Peak: s["VmHWM"]}, nil
}
