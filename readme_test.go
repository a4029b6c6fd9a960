package khop_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/formats/synthetic"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

// readmeExample is what README.md shows, between the two comments.
func readmeExample(ctx context.Context, train func(blocks [][]graph.Block, x, y unified.Tensor)) error {
	// begin
	ds, err := formats.Open("products.khop")
	if err != nil {
		return err
	}
	defer ds.Close()
	sampler := sampling.Neighbor{Fanouts: []int{15, 10, 5}}
	ld, err := loader.New(ds, loader.Options{Sampler: sampler, Shuffle: true, Seed: 7})
	if err != nil {
		return err
	}
	defer ld.Close()
	for batch, err := range ld.Epoch(ctx, 0) {
		if err != nil {
			return err
		}
		train(batch.Sample.Blocks, batch.X(), batch.Y())
	}
	// end
	return nil
}

func TestReadmeExampleLoadsAnEpoch(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := synthetic.Generate(t.Context(), synthetic.Products, "products.khop",
		synthetic.Options{Nodes: 30_000}); err != nil {
		t.Fatal(err)
	}
	batches, seeds := 0, int64(0)
	err := readmeExample(t.Context(), func(blocks [][]graph.Block, x, y unified.Tensor) {
		batches++
		seeds += y.Len()
		if len(blocks) != 3 || x.Len() != blocks[0][0].NumSrc || y.Len() != blocks[2][0].NumDst {
			t.Errorf("batch %d: %d layers, features %v, labels %v", batches, len(blocks), x, y)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ds, err := formats.Open("products.khop")
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	split, err := ds.Split("train", 0)
	if err != nil || seeds != split.Len() || int64(batches) != (split.Len()+1023)/1024 {
		t.Errorf("%d batches with %d seeds, but the split has %d (%v)", batches, seeds, split.Len(), err)
	}
}

// fenced returns what stands between a fence and the next one.
func fenced(text, fence string) string {
	_, text, _ = strings.Cut(text, fence)
	text, _, _ = strings.Cut(text, "```")
	return text
}

func TestReadmeShowsTheExampleThatIsTested(t *testing.T) {
	readme, code := read(t, "README.md"), read(t, "readme_test.go")
	shown := fenced(readme, "```go title=\"part of a program\"\n")
	_, tested, _ := strings.Cut(code, "// begin\n")
	tested, _, _ = strings.Cut(tested, "\t// end\n")
	lines := strings.SplitAfter(tested, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	if tested = strings.Join(lines, ""); shown != tested || shown == "" {
		t.Errorf("README.md shows\n%s\nbut what is tested is\n%s", shown, tested)
	}
}

var link = regexp.MustCompile(`\]\(([^()#:]+)(#[^)]*)?\)`)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	documents, _ := filepath.Glob("*.md")
	more, _ := filepath.Glob("docs/*.md")
	for _, doc := range append(documents, more...) {
		for _, m := range link.FindAllStringSubmatch(read(t, doc), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}

var (
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	identifier = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(\.([A-Z]\w*))?$`)
)

// TestArchitectureNamesWhatExists looks for each path and each exported name that docs/architecture.md mentions.
func TestArchitectureNamesWhatExists(t *testing.T) {
	for _, m := range codeSpan.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		name := identifier.FindStringSubmatch(m[1])
		if name == nil {
			if _, err := os.Stat(m[1]); strings.Contains(m[1], "/") && err != nil {
				t.Errorf("docs/architecture.md names %s: %v", m[1], err)
			}
			continue
		}
		last := cmp.Or(name[4], name[2])
		declared := regexp.MustCompile(`(?m)^(type |func |func \(.*\) |\t)` + last + `\b`)
		files, _ := filepath.Glob(filepath.Join(name[1], "*.go"))
		below, _ := filepath.Glob(filepath.Join("*", name[1], "*.go"))
		internal, _ := filepath.Glob(filepath.Join("*", "internal", name[1], "*.go"))
		files = slices.Concat(files, below, internal)
		if !slices.ContainsFunc(files, func(f string) bool { return declared.MatchString(read(t, f)) }) {
			t.Errorf("docs/architecture.md names %s, which is not in package %s", m[1], name[1])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPagesShowGoThatCompiles puts each block of Go of a page into a function that has what the page takes for granted.
func TestPagesShowGoThatCompiles(t *testing.T) {
	pages, _ := filepath.Glob("docs/*.md")
	var body strings.Builder
	blocks := 0
	for _, page := range pages {
		for i, after := range strings.Split(read(t, page), "```go title=\"part of a program\"\n")[1:] {
			block, _, _ := strings.Cut(after, "```")
			if strings.Contains(block, "flight.") || page == "docs/gomlx.md" {
				continue // of modules of their own, whose tests have them
			}
			block = strings.NewReplacer("{ ... }", "{ panic(err) }", "...\n", "_, _ = ld, err\n").Replace(block)
			fmt.Fprintf(&body, "\n// %s, block %d.\nfunc _() {\n%s\n", page, i+1, block)
			for _, m := range regexp.MustCompile(`(?m)^(\w+), err :=`).FindAllStringSubmatch(block, -1) {
				fmt.Fprintf(&body, "_, _ = %s, err\n", m[1])
			}
			body.WriteString("}\n")
			blocks++
		}
	}
	source := `package pages

import (
	"context"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/graph"
	"github.com/khop-gnn/khop/loader"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/sampling"
	"github.com/khop-gnn/khop/unified"
)

var (
	ctx     context.Context
	ds      loader.Source
	options loader.Options
	dev     *device.Device
	rows    unified.Tensor
	_       sampling.Sampler
	train   func(*graph.Sample, unified.Tensor, unified.Tensor)
)
` + body.String()
	file := filepath.Join(t.TempDir(), "pages.go")
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	root, err := os.Getwd()
	if err == nil {
		err = os.WriteFile(file, []byte(source), 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace": {%q: %q}}`,
			filepath.Join(root, "internal/pages/pages.go"), file), 0o600)
	}
	if err != nil || blocks < 3 {
		t.Fatal(blocks, err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "./internal/pages").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s%s", err, out, source)
	}
}
