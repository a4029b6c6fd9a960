package gomlx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestTheGuideShowsTheExampleThatIsTested(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gomlx.md"))
	expect.OK(t, err)
	code, err := os.ReadFile("example_test.go")
	expect.OK(t, err)
	_, shown, _ := strings.Cut(string(guide), "```go title=\"needs a checkout of khop\"\npackage main\n")
	shown, _, _ = strings.Cut(shown, "```")
	tested, _, _ := strings.Cut(string(code), "\t// Output:")
	tested = strings.NewReplacer("package gomlx_test\n", "", "func Example()", "func main()").Replace(tested) + "}\n"
	expect.That(t, shown == tested, "docs/gomlx.md shows\n%s\nbut what is tested is\n%s", shown, tested)
}
