package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/internal/option/given"
	"github.com/khop-gnn/khop/loader"
)

func TestNumbersAsPeopleReadThem(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{machine.Bytes(0), "0 B"}, {machine.Bytes(999), "999 B"}, {machine.Bytes(20_000), "20.0 kB (19.5 KiB)"},
		{machine.Bytes(5 << 20), "5.24 MB (5.00 MiB)"}, {machine.Bytes(24 << 30), "25.8 GB (24.0 GiB)"},
		{durationText(1234567 * time.Nanosecond), "1.23ms"}, {durationText(90 * time.Second), "1m30s"},
		{durationText(1234 * time.Millisecond), "1.23s"},
	} {
		expect.That(t, c.got == c.want, "%q, want %q", c.got, c.want)
	}
}

func TestSizesOnTheCommandLine(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "123": 123, "4GB": 4e9, "1.5 GiB": 3 << 29, "500mb": 5e8, "2KiB": 2048, "7b": 7, "1TB": 1e12,
		"": -1, "GB": -1, "-1GB": -1, "four": -1, "1e30": -1, "NaN": -1, "9999999TiB": -1,
	} {
		of := loader.Options{MaxMemory: -1}
		err := given.Apply(&of, given.Of(of), given.Values{"max-memory": text})
		expect.That(t, (err != nil) == (want < 0) && of.MaxMemory == want, "%q: %d, %v; want %d", text, of.MaxMemory,
			err, want)
	}
}

func TestTheProgramCompletesCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"khop ": "add bench check completion convert demo docs doctor embed export generate info options partition " +
			"plan report sample samplers " +
			"serve split stage task trace train tune version",
		"khop sam":                         "sample samplers",
		"khop sample --fan":                "--fanouts",
		"khop sample d.khop --frontier ":   "all new",
		"khop generate ":                   "products rmat sbm typed",
		"khop completion z":                "zsh",
		"khop sample d.khop --remainder s": "short",
		"khop sample d":                    "",
	} {
		t.Setenv("COMP_LINE", line)
		words := strings.Fields(must(t))
		slices.Sort(words)
		got := strings.Join(words, " ")
		expect.That(t, got == want, "%q: %q, want %q", line, got, want)
	}
}

func TestCompletionScriptsMakeTheShellAsk(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := must(t, "completion", shell)
		if bash, err := exec.LookPath(shell); shell == "bash" && err == nil {
			out, err := exec.Command(bash, "-c", script+"\ncomplete -p khop").CombinedOutput()
			expect.That(t, err == nil && strings.Contains(string(out), "complete -o default -C"), "%v: %s", err, out)
		}
		expect.That(t, strings.Contains(script, "khop"), "%s: %q", shell, script)
	}
}

func TestTimeBetweenBatches(t *testing.T) {
	start := time.Unix(0, 0)
	var marks []time.Time
	for i := range 64 { // two workers that deliver two batches at once each 10 ms
		marks = append(marks, start.Add(time.Duration(i/2+1)*10*time.Millisecond))
	}
	s := betweenBatches(start, marks, 2)
	expect.That(t, s.Median == 5 && s.Min == 5 && s.Max == 5, "%+v, want 5 ms", s)
	if s := betweenBatches(start, marks[1:2], 8); s.Median != 10 {
		t.Errorf("%+v, want 10 ms", s)
	}
}
