//go:build cuda && cgo && linux && (amd64 || arm64)

package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/device"
)

const apart = "KHOP_CUDATEST_APART" // names the test that a process was started for

// Devices reports whether the test may go on with n devices. A program counts its devices once. So with the simulator,
// also one that poses as a real driver, the test runs again in a process of its own, with that many devices and with
// further settings ("peers=1"): there Devices is true, here it is false and the test has the other's result. A real
// machine with fewer devices skips the test. t is not a subtest.
func Devices(t *testing.T, n int, settings string) bool {
	t.Helper()
	switch {
	case os.Getenv(apart) == t.Name() || os.Getenv("KHOP_CUDA_DRIVER") == "" && device.Count() >= n:
		return true
	case os.Getenv("KHOP_CUDA_DRIVER") == "":
		t.Skipf("needs %d devices", n)
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$", "-test.v", "-test.count=1"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	all := strings.Trim(fmt.Sprintf("%s,devices=%d,%s", os.Getenv("KHOP_CUDASIM"), n, settings), ",")
	c.Env = append(os.Environ(), apart+"="+t.Name(), "KHOP_CUDASIM="+all)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("with %s: %v\n%s", all, err, out)
	}
	return false
}

// OpenAt is Open for another device.
func OpenAt(t testing.TB, ordinal int) *device.Device {
	t.Helper()
	d, err := device.Open(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		Report(t)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
