package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/integrations/shm/consumer"
	"github.com/khop-gnn/khop/internal/expect"
)

// apart runs the command line in a process of its own, which gets the bytes as they are.
func apart(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := process(t, program(t), args...)
	var out, err strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run()
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// oddDir is a folder whose name is not text.
func oddDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d\xff")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("names are text here: ", err)
	}
	return dir
}

func TestPathsAreTakenByteForByte(t *testing.T) {
	dir := oddDir(t)
	done := func(args ...string) string {
		t.Helper()
		out, err, code := apart(t, args...)
		expect.Ensure(t, code == exitDone && utf8.ValidString(out) && utf8.ValidString(err),
			"khop %q: status %d, %q, %q", args, code, out, err)
		return out
	}
	id := func(path string) (m struct{ ID, Source, Dataset string }) {
		t.Helper()
		var r infoResult
		expect.OK(t, json.Unmarshal([]byte(done("info", path, "--json")), &r))
		m.ID, m.Source, m.Dataset = r.ID, r.Provenance["source"], r.Dataset
		return m
	}
	one, two := filepath.Join(dir, "a\xff"), filepath.Join(dir, "a\xfe")
	done("generate", "sbm", one, "--nodes", "50")
	first := id(one)
	done("generate", "sbm", two, "--nodes", "60")
	done("generate", "sbm", two, "--nodes", "70", "--force")
	if again := id(one); again != first || id(two).ID == first.ID || again.Dataset == id(two).Dataset {
		t.Errorf("%q was %+v and is %+v, %q is %+v", one, first, again, two, id(two))
	}
	list, three := filepath.Join(dir, "e\xff.txt"), filepath.Join(dir, "\xff")
	expect.OK(t, os.WriteFile(list, []byte("0 1\n1 0\n"), 0o600))
	done("convert", list, three)
	got := id(three).Source
	expect.That(t, got == `"e\xff.txt"`, "the manifest says that it was made of %s", got)
	seeds := filepath.Join(dir, "s\xff")
	expect.OK(t, os.WriteFile(seeds, []byte("7\n"), 0o600))
	done("sample", one, "--seeds", "@"+seeds, "--json")
	done("check", one, "--json")
	names := []string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Dir(p) == dir {
			names = append(names, d.Name())
		}
		return err
	})
	if got := strings.Join(names, " "); err != nil || got != "a\xfe a\xff e\xff.txt s\xff \xff" {
		t.Errorf("there are %q, %v", got, err)
	}
}

func TestPathsThatAreNoTextAreQuotedInErrors(t *testing.T) {
	dir := oddDir(t)
	for _, args := range [][]string{
		{"info", dir + "/none\xfe\x1b[2J"}, {"check", dir}, {"convert", dir + "/none\xfe\x1b[2J", dir + "/x"},
		{"sample", dir + "/none\xfe\x1b[2J"}, {"generate", "sbm", dir + "/no/such\xfe\x1b[2J"},
		{"nosuch\xff\x1b[2J"}, {"info", dir, "more\xff\x1b[2J"}, {"sample", dir, "--nosuch\xff\x1b[2J"},
		{"serve", dir, "--socket", dir + "/socket\xff\x1b[2J"},
	} {
		_, err, code := apart(t, args...)
		if code == exitDone || !utf8.ValidString(err) || strings.ContainsRune(err, '\x1b') ||
			!strings.Contains(err, `\xff`) {
			t.Errorf("khop %q: status %d, %q", args, code, err)
		}
	}
}

func TestTheFeedTakesPathsByteForByte(t *testing.T) {
	dir := oddDir(t)
	data, socket := filepath.Join(dir, "a\xff"), filepath.Join(dir, "feed\xff", "socket\xfe")
	must(t, "generate", "sbm", data, "--nodes", "50")
	s := startServer(t, data, "--socket", socket, "--fanouts", "2", "--epochs", "1")
	if _, err := os.Stat(socket); err != nil || strings.ContainsRune(s.ready.Socket, utf8.RuneError) {
		t.Errorf("%v; the server says that it listens at %s", err, s.ready.Socket)
	}
	c := expect.Must(consumer.Dial(t.Context(), socket, consumer.Options{}))(t)
	defer c.Close()
	for _, err := range c.Epoch(t.Context(), 0) {
		expect.OK(t, err)
	}
}

func TestSeedsAreOfAFileAndPlainText(t *testing.T) {
	data, dir := small(t), t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no pipes here: ", err)
	}
	for text, want := range map[string]string{
		"1\r2\r3\r": "", "\xef\xbb\xbf1\n2\n3": "", "1\n2\n\xef\xbb\xbf3\n": "row 3", "\xff\xfe1\x00": "UTF-16",
	} {
		file := filepath.Join(dir, "seeds")
		expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
		out, errOut, code := khop(t, "sample", data, "--seeds", "@"+file, "--jsonl")
		if (code == exitDone) != (want == "") || !strings.Contains(errOut, want) ||
			code == exitDone && !strings.Contains(out, `"seeds":3`) {
			t.Errorf("%q: status %d, %s%s", text, code, out, errOut)
		}
	}
	for _, args := range [][]string{{"sample", data, "--seeds", "@" + pipe}, {"convert", pipe, dir + "/x"},
		{"convert", "/dev/zero", dir + "/x"}, {"convert", "-", dir + "/x"}} {
		fails(t, exitFailed, "to a file first", args...)
	}
	fails(t, exitUsage, "it is a pipe", "sample", data, "--sampler", "cluster", "--partition", pipe)
}
