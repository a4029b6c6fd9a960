package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// A trace of khop's and one of torch's, which counts from another base, become one file with the same times.
func TestTracesOfOthersAreMerged(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) { expect.OK(t, os.WriteFile(at(name), []byte(text), 0o600)) }
	write("a.json", `{"schema":"khop trace 1","baseTimeNanoseconds":1000000000,"traceEvents":[
		{"ph":"X","ts":5.250,"dur":1,"name":"batch","cat":"khop"},{"ph":"s","ts":5.3,"id":7,"cat":"khop"}]}`)
	write("b.json", `{"traceEvents":[{"ph":"X","ts":1000009.125,"dur":2,"name":"step","args":{"big":12345678901234567}},
		{"ph":"M","name":"process_name"}]}`)
	write("list.json", `[{"ph":"s","ts":"1000011","id":7,"cat":"khop"}]`)
	run := func(args ...string) (int, string) {
		out, errs, code := khop(t, append([]string{"trace", "merge"}, args...)...)
		return code, out + errs
	}
	code, said := run(at("all.json"), at("a.json"), at("b.json"), at("list.json"))
	expect.Ensure(t, code == 0, "%d: %s", code, said)
	var all struct {
		Base   int64 `json:"baseTimeNanoseconds"`
		Events []struct {
			Name string          `json:"name"`
			Time float64         `json:"ts"`
			ID   uint64          `json:"id"`
			Args json.RawMessage `json:"args"`
		} `json:"traceEvents"`
	}
	expect.OK(t, json.Unmarshal(expect.Must(os.ReadFile(at("all.json")))(t), &all))
	e := all.Events
	expect.Ensure(t, all.Base == 1e9 && len(e) == 5, "%+v", all)
	expect.That(t, e[0].Time == 5.25 && e[2].Time == 9.125 && e[4].Time == 11, "%+v", e)
	expect.That(t, e[1].ID == 7 && e[4].ID == 2<<32+7 && string(e[2].Args) == `{"big":12345678901234567}`, "%+v", e)

	code, said = run(at("all.json"), at("a.json")) // one of khop's own
	expect.That(t, code == 0, "%d: %s", code, said)
	for name, text := range map[string]string{"no trace": `{"events":[]}`, "half": `{"traceEvents":[{"ts":`,
		"a list of": `[1]`, "no time": `[{"ts":[1]}]`, "far": `[{"ts":1e300},{}]`, "empty": ""} {
		write("bad.json", text)
		code, said = run(at("all.json"), at("a.json"), at("bad.json"))
		named := strings.Contains(said, "bad.json") || strings.Contains(said, "event")
		expect.That(t, code == 1 && named, "%s: %d: %s", name, code, said)
	}
	code, said = run(at("b.json"), at("a.json"))
	expect.That(t, code != 0 && strings.Contains(said, "--force"), "a foreign file: %d: %s", code, said)
	code, said = run(at("a.json"), at("a.json"))
	expect.That(t, code != 0, "its own source: %d: %s", code, said)
}
