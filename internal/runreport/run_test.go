package runreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func said(json.RawMessage) string { return "It <waited>." }

// made is the report of runs.
func made(t *testing.T, texts ...string) string {
	t.Helper()
	var runs []*Run
	for _, text := range texts {
		runs = append(runs, expect.Must(Read("a <run>", []byte(text), said))(t))
	}
	var b bytes.Buffer
	expect.OK(t, Write(&b, runs))
	return b.String()
}

func TestAReportHasWhatRunsPrinted(t *testing.T) {
	one := `{"sample_ms":4,"batches_per_s":10.25,"dataset":"<d>","report":{},"options":{"workers":1,"a":"<b>"}}`
	two := `{"degrees":[{"from":0,"nodes":7}],
		"sample_ms":8,"batches_per_s":10.25,"dataset":"<d>","bytes":28263500.5,"none":null}`
	text := made(t, one, two)
	for _, want := range []string{"It &lt;waited&gt;.", "a &lt;run&gt;", "<td>&lt;d&gt;</td>", "<td>28263500</td>",
		"sample: 8.00 ms a worker and batch", "&#34;workers&#34;: 1", "&#34;a&#34;: &#34;&lt;b&gt;&#34;"} {
		expect.That(t, strings.Contains(text, want), "the report lacks %q", want)
	}
	differs := text[strings.Index(text, "What differs"):strings.Index(text, "All values")]
	expect.That(t, !strings.Contains(text, "degrees"), "what is drawn is listed, too")
	expect.That(t, strings.Contains(differs, "sample ms") && !strings.Contains(differs, "batches per s"), "%s", differs)
	unsafe := strings.Contains(text, "<script") || strings.Contains(text, "<b>")
	expect.That(t, !unsafe && len(text) < 1<<20, "%s", text)
}

func TestAReportDrawsCurves(t *testing.T) {
	text := made(t, `{"epoch":1,"loss":3,"val_accuracy":0.25,"batches_per_second":7}
		{"epoch":2,"loss":2,"val_accuracy":0.5,"batches_per_second":8}
		{"model":"sage","val_accuracy":0.5,"loading":{}}`)
	expect.That(t, strings.Count(text, "<svg") == 2 && strings.Contains(text, "It &lt;waited&gt;."), "%s", text)
	text = made(t, `{"caches":[{"cache_bytes":1e9,"policies":[{"policy":"lru","seconds":3}]},{"cache_bytes":2e9,
		"policies":[{"policy":"lru","seconds":1}]}]}`)
	expect.That(t, strings.Count(text, "<svg") == 1, "%s", text)
}

func TestWhatIsNoRunIsRefused(t *testing.T) {
	for _, text := range []string{"", "null", "[1]", "7", `{"a":`, `{"a":1} x`} {
		_, err := Read("run", []byte(text), said)
		expect.That(t, errors.Is(err, ErrRun), "%q: %v", text, err)
	}
}
