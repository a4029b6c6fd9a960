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

// inPage returns what an expression is in a page, as JSON. state is where the page finds its state, "" for nowhere.
func inPage(t *testing.T, page, state, expression string, args ...string) string {
	t.Helper()
	page = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	page += `<script src="axe.js"></script><script>setTimeout(() => Promise.resolve(` + expression +
		`).then(v => { document.body.dataset.found = JSON.stringify(v) }), 1500)</script>`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			_, _ = io.WriteString(w, page)
		case "/axe.js":
			if script := os.Getenv("KHOP_AXE"); script != "" {
				http.ServeFile(w, r, script)
			}
		case "/state":
			_, body, _ := get(t, state, "")
			_, _ = io.WriteString(w, body)
		}
	}))
	defer s.Close()
	dom, _ := chromium(t, append(args, "--dump-dom", s.URL)...)
	found := regexp.MustCompile(`data-found="([^"]*)"`).FindStringSubmatch(dom)
	expect.Ensure(t, len(found) == 2, "%s says nothing: %s", expression, dom)
	return html.UnescapeString(found[1])
}

// accessible has axe-core look at a page, where KHOP_AXE names its axe.min.js.
func accessible(t *testing.T, page, state string) {
	t.Helper()
	if os.Getenv("KHOP_AXE") == "" {
		return
	}
	found := inPage(t, page, state,
		`axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ')))`)
	expect.That(t, found == "[]", "axe-core says: %s", found)
}

// windowWidths are those of windows that pages are made for, in pixels.
var windowWidths = []int{400, 1100, 1400}

// uncut sees that a page has nothing that is wider than its place.
func uncut(t *testing.T, page, state string) {
	t.Helper()
	for _, width := range windowWidths {
		found := inPage(t, page, state, `[...document.querySelectorAll('body, .scroll')].filter(e => `+
			`e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.trim().slice(0, 80))`,
			fmt.Sprintf("--window-size=%d,900", width))
		expect.That(t, found == "[]", "at %d pixels it cuts %s", width, found)
	}
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
		return must(t, append([]string{"bench", data, "--batches", "1000", "--batch-size", "200", "--fanouts", "10,5",
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
	page := string(expect.Must(os.ReadFile(target))(t))
	accessible(t, page, "")
	uncut(t, page, "")
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
