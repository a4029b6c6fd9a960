package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
)

var khop = filepath.Join("..", "..")

// ok ends a test where something fails.
func ok(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{khop}, path...)...))
	ok(t, err)
	return string(text)
}

// released makes a folder of a release with two files, signed.
func released(t *testing.T) (key, folder string) {
	t.Helper()
	key, folder = filepath.Join(t.TempDir(), "khop.key"), t.TempDir()
	for name, text := range map[string]string{"khop.tar.gz": "a program", "khop.whl": "a wheel"} {
		ok(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	ok(t, makeKeys(rand.Reader, key), (&release{out: folder}).sums(), sign(key, folder))
	return key, folder
}

func TestASignedReleaseIsVerifiedAndAChangedByteRefused(t *testing.T) {
	key, folder := released(t)
	ok(t, verify(key+".pub", folder))
	for _, name := range []string{"khop.tar.gz", "khop.whl", sums, sums + ".minisig"} {
		path := filepath.Join(folder, name)
		text, err := os.ReadFile(path)
		ok(t, err)
		changed := bytes.Clone(text)
		changed[len(changed)/2] ^= 1
		ok(t, os.WriteFile(path, changed, 0o644))
		if err := verify(key+".pub", folder); err == nil {
			t.Errorf("%s with a changed byte is taken", name)
		}
		ok(t, os.WriteFile(path, text, 0o644))
	}
	other, _ := released(t)
	if verify(other+".pub", folder) == nil {
		t.Error("a signature of another key is taken")
	}
}

func TestMinisignItselfTakesTheSignatureAndRefusesAChangedByte(t *testing.T) {
	minisign, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("minisign is not installed")
	}
	key, folder := released(t)
	verify := func() ([]byte, error) {
		return exec.Command(minisign, "-Vm", filepath.Join(folder, sums), "-p", key+".pub").CombinedOutput()
	}
	if out, err := verify(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, sums))
	ok(t, err)
	text[0] ^= 1
	ok(t, os.WriteFile(filepath.Join(folder, sums), text, 0o644))
	if out, err := verify(); err == nil {
		t.Errorf("a changed byte is taken: %s", out)
	}
}

func TestTheSameFilesGiveTheSameArchives(t *testing.T) {
	one := []file{{"b/x", 0o755, "", []byte("x")}, {"a", 0o644, "", []byte("a")}}
	two := []file{one[1], one[0]}
	for _, pack := range []func([]file) ([]byte, error){tarred, zipped} {
		x, err := pack(one)
		ok(t, err)
		if y, _ := pack(two); !bytes.Equal(x, y) {
			t.Error("the order of files matters")
		}
		if _, err := pack(append(two, file{"a", 0o644, "", []byte("b")})); err == nil {
			t.Error("two files of a name are taken")
		}
	}
}

func TestEachCommandOfEachGroupHasAManPage(t *testing.T) {
	help := "Usage: khop <command>\n\nFlags:\n  -h, --help    Show help.\n\nStart:\n  demo    Tour.\n\n" +
		"Runs:\n  report         Compare runs\n                 in one file.\n  trace merge    Merge.\n\nRun it.\n"
	if got := strings.Join(commandsIn(help), " "); got != "demo report trace" {
		t.Errorf("commands: %s", got)
	}
}

func TestAManPageHasWhatHelpSays(t *testing.T) {
	page := string(manPage("1.2.3", "khop-check", "Usage: khop check <dataset> [flags]\n\nVerify a dataset.\n\n"+
		"Flags:\n  -h, --help    Show help.\n.dot\n"))
	for _, want := range []string{".TH KHOP\\-CHECK 1", "khop\\-check \\- Verify a dataset\n",
		"\\-\\-help    Show help.\n", "\\&.dot"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

func TestPackagesOfDebianAreWhole(t *testing.T) {
	out := t.TempDir()
	r := &release{project: project{Name: "khop", Version: "1.2.3"}, out: out}
	files := []file{{"usr/bin/khop", 0o755, "", []byte("program")}}
	control := "Package: khop\nVersion: 1.2.3\nArchitecture: amd64\nMaintainer: x\nDescription: y\n"
	ok(t, r.deb(linux[0], control, files))
	text, err := os.ReadFile(filepath.Join(out, "khop_1.2.3_amd64.deb"))
	ok(t, err)
	at := bytes.Index(text, []byte("data.tar.gz"))
	z, err := gzip.NewReader(bytes.NewReader(text[at+60:]))
	ok(t, err)
	z.Multistream(false)
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "usr/ usr/bin/ usr/bin/khop" {
		t.Errorf("it has %s", got)
	}
	if dpkg, err := exec.LookPath("dpkg-deb"); err == nil {
		out, err := exec.Command(dpkg, "--info", filepath.Join(out, "khop_1.2.3_amd64.deb")).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Version: 1.2.3") {
			t.Errorf("dpkg-deb: %v: %s", err, out)
		}
	}
}

// TestNamesStandInOnePlace holds what cannot read project.json to it.
func TestNamesStandInOnePlace(t *testing.T) {
	p, err := readProject(khop)
	ok(t, err)
	for _, in := range []struct{ path, want string }{
		{"go.mod", "module " + p.Module + "\n"},
		{"integrations/python/pyproject.toml", `name = "` + p.Name + `"`},
		{"integrations/python/pyproject.toml", `description = "` + p.Summary + `"`},
		{"integrations/python/pyproject.toml", `license = "` + p.License + `"`},
		{"integrations/python/pyproject.toml", `Source = "` + p.Source + `"`},
		{"integrations/python/pyproject.toml", `Documentation = "` + p.Docs + `python.md"`},
		{"integrations/python/src/khop/__init__.py", `__version__ = "` + p.Version + `.dev0"`},
		{"integrations/python/setup.py", p.Module + "/internal/project.release="},
		{"mkdocs.yml", "site_name: " + p.Name + "\n"},
		{"mkdocs.yml", "repo_url: " + p.Source + "\n"},
		{"tools/docs_site.py", `REPOSITORY = "` + p.Source + `/blob/main/"`},
		{"CHANGELOG.md", "## " + strings.TrimSuffix(p.Version, ".0")},
	} {
		if !strings.Contains(read(t, filepath.FromSlash(in.path)), in.want) {
			t.Errorf("%s has no %q, as internal/project/project.json says", in.path, in.want)
		}
	}
}

// TestNothingElseSpellsTheAddress: pages link as they must, and Go imports the module's path, which has no scheme.
func TestNothingElseSpellsTheAddress(t *testing.T) {
	p, err := readProject(khop)
	ok(t, err)
	_, maker, _ := strings.Cut(p.Maintainer, "<")
	held := "internal/project/project.json integrations/python/pyproject.toml mkdocs.yml tools/docs_site.py"
	out, err := exec.Command("git", "-C", khop, "grep", "-lF", "-e", p.Source, "-e", maker, "--", ":!*.md").Output()
	if err != nil {
		t.Skipf("git: %v", err) // a release's sources have none
	}
	for _, file := range strings.Fields(string(out)) {
		if !slices.Contains(strings.Fields(held), file) {
			t.Errorf("%s spells %s: it is to come from internal/project/project.json", file, p.Source)
		}
	}
}

func TestReleaseRefusesAnotherVersionThanTheCheckouts(t *testing.T) {
	if _, err := newRelease(khop, "python3", "9.9.9"); err == nil || !strings.Contains(err.Error(), "project.json") {
		t.Errorf("%v", err)
	}
}

// notVariable reports whether a word of a step is more than NAME=VALUE.
func notVariable(word string) bool { return !regexp.MustCompile(`^[A-Z]+=\w+$`).MatchString(word) }

// TestWorkflowsCallTargetsAndHoldNoLogic checks the workflows of the forge, which do not run here.
func TestWorkflowsCallTargetsAndHoldNoLogic(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(khop, ".github", "workflows", "*.yml"))
	if len(paths) < 3 {
		t.Fatalf("workflows: %v", paths)
	}
	linter, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	ok(t, err)
	problems, err := linter.LintFiles(paths, nil)
	ok(t, err)
	for _, p := range problems {
		t.Error(p)
	}
	makefile := read(t, "Makefile")
	step := regexp.MustCompile(`(?m)^ *-? *run: *(.*)$`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		ok(t, err)
		for _, m := range step.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(m[1])
			if len(words) < 2 || words[0] != "make" || slices.ContainsFunc(words[2:], notVariable) {
				t.Errorf("%s: %q is no target of make", path, m[1])
			} else if !strings.Contains(makefile, "\n"+words[1]+": ##") {
				t.Errorf("%s: the Makefile has no target %s", path, words[1])
			}
		}
	}
}

func TestTheProjectIsComplete(t *testing.T) {
	var all map[string]string
	ok(t, json.Unmarshal([]byte(read(t, "internal", "project", "project.json")), &all))
	for _, key := range []string{"name", "version", "module", "summary", "license", "source", "docs", "maintainer"} {
		if all[key] == "" {
			t.Errorf("project.json has no %s", key)
		}
	}
}
