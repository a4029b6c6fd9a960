package runreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

func said(json.RawMessage) string { return "It <waited>." }

// made is the report of runs.
func made(t *testing.T, texts ...string) string {
	t.Helper()
	var runs []*Run
	for i, text := range texts {
		runs = append(runs, expect.Must(Read(fmt.Sprintf("run <%d>", i+1), []byte(text), said))(t))
	}
	var b bytes.Buffer
	expect.OK(t, Write(&b, runs))
	return b.String()
}

// section is the words of a part of a report.
func section(t *testing.T, text, title string) string {
	t.Helper()
	_, text, found := strings.Cut(text, "<h2>"+title+"</h2>")
	expect.Ensure(t, found, "there is no %q", title)
	text, _, _ = strings.Cut(text, "</section>")
	text = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, " ")
	return html.UnescapeString(strings.Join(strings.Fields(text), " "))
}

const (
	one = `{"seconds":3,"sample_ms":4.5,"batches_per_s":10.25,"dataset":"<d>","report":{},
		"options":{"workers":1,"a_b":"<b>"},"anon_bytes":412614656,"gather_gb_per_s":6.76122,
		"nodes_per_hop":[1000.5,2],"seed":1234567,"workers":1,"warmup":3}`
	two = `{"seconds":3,"sample_ms":9,"batches_per_s":20.5,"dataset":"<d>","report":{},
		"options":{"workers":2},"anon_bytes":412614657,"gather_gb_per_s":6.76122,
		"nodes_per_hop":[1000.5,2],"seed":1234567,"none":null}`
)

func TestAReportSaysFiguresInUnitsAndGroups(t *testing.T) {
	text := made(t, one)
	all := section(t, text, "All figures")
	shown, printed, _ := strings.Cut(all, "As printed")
	last := -1
	for _, want := range []string{"What was run", "--a-b <b>", "--workers 1", "dataset <d>", "seed 1234567", "Speed",
		"batches a second 10.2", "bytes gathered 6.76 GB/s", "A batch", "nodes after each hop 1,001, 2",
		"Where the time went", "sample, one worker, a batch 4.50 ms", "Memory", "memory of the whole process 413 MB"} {
		at := strings.Index(shown, want)
		expect.That(t, at > last, "%q is not there, or not in its place: %s", want, shown)
		last = at
	}
	expect.That(t, strings.Count(shown, "workers") == 1, "an option is there twice: %s", shown)
	for _, want := range []string{"anon_bytes 412614656", "options.workers 1", " workers 1",
		"gather_gb_per_s 6.76122"} {
		expect.That(t, strings.Contains(printed, want), "the raw names lack %q: %s", want, printed)
	}
	for _, want := range []string{"It &lt;waited&gt;.", "run &lt;1&gt;", `title="anon_bytes"`, "&#34;workers&#34;: 1"} {
		expect.That(t, strings.Contains(text, want), "the report lacks %q", want)
	}
	unsafe := strings.Contains(text, "<script") || strings.Contains(text, "<b>") || strings.Contains(text, "<d>")
	expect.That(t, !unsafe && !strings.Contains(text, "What changed") && len(text) < 1<<20, "%s", text)
}

func TestAReportBeginsWithWhatChanged(t *testing.T) {
	text := made(t, one, two)
	expect.That(t, strings.Index(text, "What changed") < strings.Index(text, "<h2>run &lt;1&gt;"), "it is not first")
	changed := section(t, text, "What changed")
	for _, want := range []string{"run <2> made 2 times as many batches a second as run <1>: 20.5, and 10.2.",
		"--a-b <b> not given", "--workers 1 2 ", "batches a second 10.2 20.5 ×2",
		"sample, one worker, a batch 4.50 ms 9 ms ×2"} {
		expect.That(t, strings.Contains(changed, want), "it lacks %q: %s", want, changed)
	}
	for _, same := range []string{"413 MB", "dataset", "GB/s", "seed", "warmup"} { // the first differs by a byte
		expect.That(t, !strings.Contains(changed, same), "%q is the same: %s", same, changed)
	}
	text = made(t, one, `{"degrees":[{"from":0,"nodes":7}],"nodes":7,"edges":3,"bytes":9,"seed":8,
		"seconds":7}`)
	expect.That(t, !strings.Contains(text, "What changed") && !strings.Contains(text, "×"), "of two kinds: %s", text)
	expect.That(t, !strings.Contains(text, "degrees"), "what is drawn is listed, too")
}

func TestAReportOfTrainingHasCurves(t *testing.T) {
	text := made(t, `{"epoch":1,"loss":3,"val_accuracy":0.25,"batches_per_second":7}
		{"epoch":2,"loss":2,"val_accuracy":0.5,"batches_per_second":8}
		{"model":"sage","val_accuracy":0.5,"test_accuracy":0.405,"best_epoch":2,"epochs":2,"seconds":75,"loading":{}}`)
	expect.Same(t, strings.Count(text, "<svg"), 2, "curves")
	card := section(t, text, "run &lt;1&gt;")
	want := "sage: test accuracy 40.5 %, validation 50 % (epoch 2 of 2), in 75 s. It <waited>. accuracy, test 40.5 %"
	expect.That(t, strings.HasPrefix(card, want), "%s", card)
	for _, want := range []string{"learning", "throughput", "loss", "validation", "epoch", "2.2"} {
		expect.That(t, strings.Contains(card, want), "its curves lack %q: %s", want, card)
	}
	text = made(t, `{"caches":[{"cache_bytes":1e9,"policies":[{"policy":"lru","seconds":3}]},{"cache_bytes":2e9,
		"policies":[{"policy":"lru","seconds":1}]}]}`)
	expect.Same(t, strings.Count(text, "<svg"), 1, "curves")
	text = made(t, one)
	card = section(t, text, "run &lt;1&gt;")
	expect.That(t, strings.Contains(card, "time of one worker, a batch"), "no bars: %s", card)
}

func TestValuesHaveTheirUnits(t *testing.T) {
	for path, want := range map[string][2]string{
		"file_bytes":         {"999499", "999 kB"},
		"memory_peak":        {"1000000", "1 MB"},
		"bytes_per_batch":    {"5126085.12", "5.13 MB"},
		"limit.bytes":        {"9223372036854775807", "no limit"},
		"rows_per_s":         {"13969047.9", "14.0 million"},
		"x.bytes_per_second": {"2422605573.3", "2.42 GB/s"},
		"val_accuracy":       {"0.32325", "32.3 %"},
		"waited":             {"0", "0 %"},
		"seconds":            {"3725.4", "62 min 05 s"},
		"gather_ms":          {"0.27712473", "277 µs"},
		"best_ns":            {"453987", "454 µs"},
		"loss":               {"2.67", "2.67"},
		"nodes":              {"20000", "20,000"},
		"gpu_percent":        {"97.25", "97.2 %"},
		"gain":               {"0.0001234", "0.000123"},
		"host_joules":        {"12.5", "12.5 J"},
		"shares":             {`[0.98765, 12345]`, "0.988, 12,345"},
		"names":              {`["20.04", "b"]`, "20.04, b"},
		"features":           {"true", "yes"},
	} {
		r := &Run{Values: map[string]value{}}
		r.flatten(path, json.RawMessage(want[0]))
		expect.Same(t, shown(path, r.Values[path]), want[1], path)
	}
}

func TestWhatIsNoRunIsRefused(t *testing.T) {
	for _, text := range []string{"", "null", "[1]", "7", `{"a":`, `{"a":1} x`} {
		_, err := Read("run", []byte(text), said)
		expect.That(t, errors.Is(err, ErrRun), "%q: %v", text, err)
	}
}
