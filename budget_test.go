//go:build !race

package khop_test

import (
	"bytes"
	"go/parser"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// The core is what everyone must read who changes how batches are made: all that loader and formats import. Its rooms
// for devices and disks, and files named for devices, are apart. These are ceilings: who adds takes as much away, or
// shows in the same commit what users get for more.
const (
	coreLines     = 35_000
	internalLines = 14_050 // below internal/
	packageFiles  = 75     // written by hand, of one package
	commandFiles  = 45     // of cmd/khop
)

var (
	apart     = regexp.MustCompile(`/(device|diskio|oncuda|cuda|disk)$`)
	forDevice = regexp.MustCompile(`^device|_device\.go$|_launch\.go$`)
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT`)
)

func TestTheCoreStaysWithinItsBudget(t *testing.T) {
	root := expect.Must(os.Getwd())(t)
	listed := expect.Must(exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{.Dir}}|{{join .GoFiles " "}} {{join .CgoFiles " "}}`, "./loader", "./formats").Output())(t)
	core := 0
	for line := range strings.Lines(string(listed)) {
		folder, files, _ := strings.Cut(line, "|")
		if !strings.HasPrefix(folder, root+"/") || apart.MatchString(filepath.ToSlash(folder)) {
			continue
		}
		for _, name := range strings.Fields(files) {
			if !forDevice.MatchString(name) {
				core += linesByHand(t, filepath.Join(folder, name))
			}
		}
	}
	t.Logf("%d lines", core)
	expect.That(t, 20_000 < core && core <= coreLines, "loader and formats import %d lines by hand, at most %d", core,
		coreLines)
}

func TestFoldersStayWithinTheirBudgets(t *testing.T) {
	files, below := map[string]int{}, 0
	for _, s := range sources(t, parser.PackageClauseOnly) {
		lines := linesByHand(t, s.name)
		if lines > 0 {
			files[s.folder]++
		}
		if strings.HasPrefix(s.folder, "internal/") {
			below += lines
		}
	}
	expect.That(t, below <= internalLines, "%d lines by hand below internal/, at most %d", below, internalLines)
	for folder, n := range files {
		most := packageFiles
		if folder == path.Join("cmd", "khop") {
			most = commandFiles
		}
		expect.That(t, n <= most, "%s has %d files by hand, at most %d", folder, n, most)
	}
}

// linesByHand counts lines of a file, 0 of one that a program has written.
func linesByHand(t *testing.T, file string) int {
	t.Helper()
	text := expect.Must(os.ReadFile(file))(t)
	if generated.Match(text) {
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}
