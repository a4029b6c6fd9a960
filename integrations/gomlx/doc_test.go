package gomlx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestTheGuideShowsWhatIsTested(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gomlx.md"))
	expect.OK(t, err)
	code, err := os.ReadFile("example_test.go")
	expect.OK(t, err)
	_, shown, _ := strings.Cut(string(guide), "```go title=\"needs a checkout of khop\"\n")
	shown, _, _ = strings.Cut(shown, "```")
	expect.That(t, shown != "" && strings.Contains(string(code), shown), "docs/gomlx.md shows\n%s\nwhich is not tested",
		shown)
}
