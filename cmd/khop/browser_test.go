package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// accessible has axe-core look at a page, where KHOP_AXE names its axe.min.js. state is where the page finds its state.
func accessible(t *testing.T, page, state string) {
	t.Helper()
	script := os.Getenv("KHOP_AXE")
	if script == "" {
		return
	}
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	page += `<script src="axe.js"></script><script>setTimeout(() => axe.run().then(r => { document.body.dataset.axe =
		JSON.stringify(r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' '))) }), 1500)</script>`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = io.WriteString(w, page)
		case "/axe.js":
			http.ServeFile(w, r, script)
		case "/state":
			_, body, _ := get(t, state, "")
			_, _ = io.WriteString(w, body)
		}
	}))
	defer s.Close()
	dom, _ := chromium(t, "--dump-dom", s.URL)
	found := regexp.MustCompile(`data-axe="([^"]*)"`).FindStringSubmatch(dom)
	expect.Ensure(t, len(found) == 2, "axe-core says nothing: %s", dom)
	expect.That(t, found[1] == "[]", "axe-core says: %s", html.UnescapeString(found[1]))
}

// The browser shows of a report what runs have printed by --json, in units and by its names, and finds nothing wrong
// with it.
func TestABrowserShowsTheReport(t *testing.T) {
	dir, data := t.TempDir(), small(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	bench := func(more ...string) string {
		return must(t, append([]string{"bench", data, "--batches", "20", "--batch-size", "10", "--fanouts", "3,2",
			"--no-memcpy", "--json"}, more...)...)
	}
	printed := bench("--workers", "1")
	target := filepath.Join(dir, "report.html")
	must(t, "report", target, write("one.json", printed), write("two.json", bench("--workers", "2")),
		write("train.jsonl", must(t, "train", data, "--epochs", "4", "--jsonl")),
		write("info.json", must(t, "info", data, "--deep", "--json")))
	dom, log := chromium(t, "--dump-dom", "file://"+target)
	expect.That(t, !strings.Contains(log, "CONSOLE"), "the console says: %s", log)
	cells := map[string]string{} // of the first run
	row := regexp.MustCompile(`<tr><th>([^<]+)</th><td>([^<]*)</td>`)
	for _, m := range row.FindAllStringSubmatch(dom, -1) {
		cells[m[1]] = html.UnescapeString(m[2])
	}
	var values map[string]any
	expect.OK(t, json.Unmarshal([]byte(printed), &values))
	seen := 0
	for name, v := range values {
		switch v.(type) {
		case string, float64:
			expect.Same(t, cells[name], fmt.Sprint(jsonText(printed, name)), name)
			seen++
		}
	}
	expect.That(t, seen > 20, "%d values were compared", seen)
	for _, want := range []string{"in-edges of nodes", "learning", "batches a second", "time of one worker, a batch"} {
		expect.That(t, strings.Contains(dom, want), "it lacks %q", want)
	}
	accessible(t, string(expect.Must(os.ReadFile(target))(t)), "")
	screenshots(t, "report", "file://"+target, 2600)
	must(t, "report", "--force", target, filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json"))
	accessible(t, string(expect.Must(os.ReadFile(target))(t)), "")
	screenshots(t, "changed", "file://"+target, 1700)
}

// jsonText is a number or a text of an object, as it is written there.
func jsonText(object, name string) string {
	var values map[string]json.RawMessage
	_ = json.Unmarshal([]byte(object), &values)
	var text string
	if json.Unmarshal(values[name], &text) == nil {
		return text
	}
	return string(values[name])
}
