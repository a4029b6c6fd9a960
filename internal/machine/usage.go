package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
)

// Usage is the memory that a process holds.
type Usage struct {
	Anonymous int64 // RssAnon + RssShmem: memory that is its own and cannot be had again from a file
	File      int64 // RssFile: pages of mapped files that it has touched, which the kernel can take back
	Peak      int64 // VmHWM: the most that both ever were together
}

// ReadUsage returns what this process holds now; errors.ErrUnsupported where the system does not tell.
func ReadUsage() (Usage, error) { return readUsage(os.DirFS("/"), "self") }

// UsageOf is ReadUsage for the process of that number; an error, too, where there is none.
func UsageOf(pid int) (Usage, error) { return readUsage(os.DirFS("/"), strconv.Itoa(pid)) }

func readUsage(root fs.FS, process string) (Usage, error) {
	s := keyed(root, "proc/"+process+"/status")
	if _, ok := s["RssAnon"]; !ok {
		return Usage{}, fmt.Errorf("memory in use: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	return Usage{Anonymous: s["RssAnon"] + s["RssShmem"], File: s["RssFile"], Peak: s["VmHWM"]}, nil
}
