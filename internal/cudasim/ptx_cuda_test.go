//go:build cuda && cgo && linux && amd64

package cudasim

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

const changed = "internal/drivertest/drivertest.ptx"

// libraryOf builds a simulator that runs this PTX in place of that of package drivertest, and the .cu files of all
// else.
func libraryOf(t *testing.T, ptx string) (string, error) {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, changed)
	expect.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	expect.OK(t, os.WriteFile(path, []byte(ptx), 0o644))
	library := filepath.Join(root, "changed.so")
	out, err := exec.Command("make", "--no-print-directory", "-s", "ptx", "PTX="+changed, "PTX_ROOT="+root,
		"PTX_OUT="+filepath.Join(root, "out"), "PTX_LIBRARY="+library).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return library, err
}

// drivertest returns the tests of package drivertest as a program: the one that tools/test-cuda.sh has linked already
// (KHOP_DEVICE_TESTS is its folder), else its own.
func drivertest(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("KHOP_DEVICE_TESTS"); folder != "" {
		return filepath.Join(folder, "drivertest.test")
	}
	tests := filepath.Join(t.TempDir(), "drivertest")
	build := exec.Command("go", "test", "-c", "-tags", "cuda", "-o", tests, "../drivertest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tests
}

// committed returns the PTX of package drivertest, as pack.py unpacks it.
func committed(t *testing.T) string {
	t.Helper()
	to := t.TempDir()
	if out, err := exec.Command("python3", "../../tools/ptx/pack.py", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(expect.Must(os.ReadFile(filepath.Join(to, changed)))(t))
}

// TestChangedInstructionIsCaught: what the tests run is the PTX, instruction by instruction, and findings name its
// lines. (That the PTX passes as it is committed the tests show that run on all of it.)
func TestChangedInstructionIsCaught(t *testing.T) {
	text := committed(t)
	tests := drivertest(t)
	for name, test := range map[string]struct{ old, new, want string }{
		"another sum": {old: "add.rn.f64", new: "sub.rn.f64", want: "FAIL"},
		"no barrier":  {old: "bar.sync \t0;", new: "", want: "UNINITIALISED"},
		"wider cells": {old: ", 3;", new: ", 4;", want: "drivertest.ptx:"},
	} {
		t.Run(name, func(t *testing.T) {
			ptx := strings.ReplaceAll(text, test.old, test.new)
			expect.Ensure(t, ptx != text, "the PTX has no %q: change another instruction", test.old)
			library := expect.Must(libraryOf(t, ptx))(t)
			run := exec.Command(tests, "-test.run", "^TestKernelsComputeWhatTheyAreGiven$")
			run.Dir, run.Env = "../drivertest", append(os.Environ(), "KHOP_CUDA_DRIVER="+library)
			out, _ := run.CombinedOutput()
			passed := strings.HasSuffix(strings.TrimSpace(string(out)), "PASS")
			expect.That(t, !passed && strings.Contains(string(out), test.want), "it does not say %s:\n%s", test.want,
				out)
		})
	}
}

func TestUnknownInstructionFailsTheBuild(t *testing.T) {
	_, err := libraryOf(t, ".visible .entry odd(\n)\n{\n\t.reg .b32 %r<2>;\n\tdance.b32 \t%r0, %r1;\n\tret;\n}\n")
	expect.That(t, err != nil && strings.Contains(err.Error(), "drivertest.ptx:5: dance.b32"), "dance.b32 gives %v",
		err)
}
