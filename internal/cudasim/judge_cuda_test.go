//go:build cuda && cgo && linux && amd64

package cudasim

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestJudgeComparesWhatALaunchWrites: a judge sees memory as it was before, and each of its launches has a line in the
// log. What it takes over becomes what the program reads.
func TestJudgeComparesWhatALaunchWrites(t *testing.T) {
	dir := t.TempDir()
	tests, judge := drivertest(t), filepath.Join(dir, "judge.so")
	build := exec.Command("g++", "-std=c++17", "-shared", "-fPIC", "-o", judge, "testdata/judge.cc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, test := range map[string]struct {
		env     []string
		outcome string
		passes  bool
	}{
		"same bytes":              {nil, "equal", true},
		"other bytes":             {[]string{"JUDGE=wrong"}, "differ", true},
		"other bytes, taken over": {[]string{"JUDGE=wrong", "KHOP_CUDASIM_JUDGE_TAKES=1"}, "differ", false},
	} {
		t.Run(name, func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "log")
			run := exec.Command(tests, "-test.run", "^TestKernelsComputeWhatTheyAreGiven$")
			run.Dir, run.Env = "../drivertest", append(os.Environ(), append(test.env,
				"KHOP_CUDA_DRIVER="+filepath.Join("../../dist", "libcudasim.so"), "KHOP_CUDASIM_JUDGE="+judge,
				"KHOP_CUDASIM_JUDGE_LOG="+log)...)
			out, err := run.CombinedOutput()
			expect.That(t, (err == nil) == test.passes, "the tests of kernels say %v:\n%s", err, out)
			judged, refused := 0, 0
			for line := range strings.Lines(string(expect.Must(os.ReadFile(log))(t))) {
				f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
				switch {
				case f[0] != "store_double":
					refused++
					expect.That(t, f[1] == "refused" && f[len(f)-1] == "this judge knows store_double alone", "%q", f)
				default:
					judged++
					expect.That(t, f[1] == test.outcome, "want %s: %q", test.outcome, f)
				}
			}
			expect.That(t, judged > 0 && refused > 0, "%d lines of store_double, %d of others", judged, refused)
		})
	}
}
