//go:build linux && !race

package gpu

import (
	"os/exec"
	"testing"
)

// TestBundleKeepsWhatItHasMeasured runs the tests of the bundle's program, which is Python.
func TestBundleKeepsWhatItHasMeasured(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	if out, err := exec.Command(python, "testdata/run_test.py").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
