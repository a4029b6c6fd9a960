package verdict_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/verdict"
)

func TestDocsHaveTheRules(t *testing.T) {
	text := string(expect.Must(os.ReadFile("../../docs/troubleshooting.md"))(t))
	table := "rule | limit | when | what to try\n--- | --- | --- | ---\n"
	for _, r := range verdict.Rules {
		table += fmt.Sprintf("%s | %s | %s | %s\n", r.Name, r.Limit, r.When, r.Then)
	}
	expect.That(t, strings.Contains(text, table), "docs/troubleshooting.md has not the rules:\n%s", table)
}

// waiting is a run whose loop waits for workers that sample.
func waiting() verdict.Facts {
	return verdict.Facts{Seconds: 10, Batches: 100, Wait: 9 * time.Second, Body: time.Second, Workers: 2, Prefetch: 2,
		Sample: 19 * time.Second, Gather: time.Second, Edges: 100_000, Rows: 1000, Bytes: 1e6, Cores: 2, Own: 2}
}

// What no test can bring about without a device, and what decides between rules that two situations meet.
func TestRulesAreAskedInOrder(t *testing.T) {
	for rule, change := range map[string]func(f *verdict.Facts){
		"":         func(f *verdict.Facts) { f.Batches = 7 },
		"sampling": func(*verdict.Facts) {},
		"bus": func(f *verdict.Facts) {
			f.Device, f.Cores, f.Own, f.Gather, f.Hits = true, 16, 1, 8*time.Second, 0.25
		},
		"few workers": func(f *verdict.Facts) { f.Cores, f.Own = 8, -1 }, // a system that does not tell
		"busy machine": func(f *verdict.Facts) {
			f.Others, f.Own, f.Mapped, f.Faults = 1, 1, true, 1e6
		},
		"slow disk": func(f *verdict.Facts) { // who waits for rows needs no processor
			f.Disk, f.Own, f.Others = 20*time.Second, 0.2, 1.8
		},
		"page cache lost": func(f *verdict.Facts) { f.Mapped, f.Faults, f.Idle = true, 1e5, 5*time.Second },
		"few slots":       func(f *verdict.Facts) { f.Idle, f.Disk = 3*time.Second, 20*time.Second },
	} {
		f := waiting()
		change(&f)
		v := verdict.Of(&f)
		expect.That(t, v.Rule == rule && (v.Text == "") == (rule == ""), "%s: %+v", rule, v)
	}
	f := waiting()
	f.Wait, f.First = 9*time.Second, 9*time.Second
	v := verdict.Of(&f)
	expect.That(t, v.Rule == "", "a loop that waits for its first batch alone: %+v", v)
}

func TestASentenceEndsInWhatToTry(t *testing.T) {
	f := waiting()
	f.Cores, f.Own = 6, 2
	v := verdict.Of(&f)
	want := "The loop waited for the loader 90 % of the time, 9s. 2 workers were busy, and 4 processors of 6 had " +
		"nothing to do. Try --Workers 6: up to 3.0 times as fast."
	expect.Same(t, v.Say(verdict.Flag), want)
	v.Option, v.Advice = "", ""
	expect.Same(t, v.Say(verdict.Flag), v.Text)
}
