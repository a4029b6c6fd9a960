package gomlx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheGuideShowsTheExampleThatIsTested(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "gomlx.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(guide), "```go\npackage main\n")
	shown, _, _ = strings.Cut(shown, "```")
	tested, _, _ := strings.Cut(string(code), "\t// Output:")
	tested = strings.NewReplacer("package gomlx_test\n", "", "func Example()", "func main()").Replace(tested) + "}\n"
	if shown != tested {
		t.Errorf("docs/gomlx.md shows\n%s\nbut what is tested is\n%s", shown, tested)
	}
}
