// Package memuse says how much memory a process holds, on Linux.
package memuse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"github.com/khop-gnn/khop/internal/machine"
)

// Usage is the memory that a process holds.
type Usage struct {
	Anonymous int64 // RssAnon + RssShmem: memory that is its own and cannot be had again from a file
	File      int64 // RssFile: pages of mapped files that it has touched, which the kernel can take back
	Peak      int64 // VmHWM: the most that both ever were together
}

// Read returns what this process holds now; errors.ErrUnsupported where the system does not tell.
func Read() (Usage, error) { return read(os.DirFS("/"), "self") }

// Of is Read for the process of that number; an error, too, where there is none.
func Of(pid int) (Usage, error) { return read(os.DirFS("/"), strconv.Itoa(pid)) }

func read(root fs.FS, process string) (Usage, error) {
	s := machine.Keyed(root, "proc/"+process+"/status")
	if _, ok := s["RssAnon"]; !ok {
		return Usage{}, fmt.Errorf("memory in use: %w on %s", errors.ErrUnsupported, runtime.GOOS)
	}
	return Usage{Anonymous: s["RssAnon"] + s["RssShmem"], File: s["RssFile"], Peak: s["VmHWM"]}, nil
}
