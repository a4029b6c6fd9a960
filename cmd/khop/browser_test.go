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

// The browser shows of a report what runs have printed by --json, and finds nothing wrong with it.
func TestABrowserShowsTheReport(t *testing.T) {
	dir, data := t.TempDir(), small(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	printed := must(t, "bench", data, "--batches", "20", "--batch-size", "10", "--fanouts", "3,2", "--no-memcpy",
		"--json")
	target, info := filepath.Join(dir, "report.html"), must(t, "info", data, "--deep", "--json")
	must(t, "report", target, write("bench.json", printed), write("info.json", info))
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
		cell, ok := cells[strings.ReplaceAll(name, "_", " ")]
		switch v := v.(type) {
		case string:
			expect.That(t, ok && cell == v, "%s is %q, printed %q", name, cell, v)
		case float64:
			shown := 0.0
			_, err := fmt.Sscan(cell, &shown)
			expect.That(t, err == nil && shown > v-1e-5*v-1e-12 && shown < v+1e-5*v+1e-12, "%s is %q, printed %v", name,
				cell, v)
		default:
			continue
		}
		seen++
	}
	expect.That(t, seen > 20, "%d values were compared", seen)
	expect.That(t, strings.Count(dom, "<svg") >= 3 && strings.Contains(dom, "in-edges of nodes"), "it lacks pictures")
	accessible(t, string(expect.Must(os.ReadFile(target))(t)), "")
	screenshots(t, "report", "file://"+target)
}
