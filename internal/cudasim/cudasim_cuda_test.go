//go:build cuda

package cudasim

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// runCases runs the tests of test/*.cc on a library; each line of theirs is a subtest.
func runCases(t *testing.T, args ...string) {
	t.Helper()
	const program = "../../dist/cudasim_test"
	out, err := exec.Command(program, args...).CombinedOutput()
	expect.Ensure(t, !errors.Is(err, fs.ErrNotExist), "%v: run make cudasim", err)
	cases := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		result, rest, _ := strings.Cut(lines.Text(), " ")
		name, problems, _ := strings.Cut(rest, "; ")
		switch result {
		case "ok", "FAIL":
			cases++
			t.Run(name, func(t *testing.T) {
				expect.That(t, result != "FAIL", "%v", problems)
			})
		default:
			t.Log(lines.Text())
		}
	}
	expect.Is(t, err, nil, program)
	expect.That(t, cases != 0, "%s ran nothing: %s", program, out)
}

// TestPlantedBugsAreFound: and nothing is found in their right counterparts, whatever the order of lanes.
func TestPlantedBugsAreFound(t *testing.T) { runCases(t, "../../dist/libcudasim.so") }
