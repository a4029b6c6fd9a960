package main

import (
	"strings"
	"testing"
)

func read(t *testing.T, r *report, events ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	r.out, r.output = &out, map[test][]string{}
	if err := r.read(strings.NewReader(strings.Join(events, "\n"))); err != nil {
		t.Fatal(err)
	}
	ok := r.finish()
	return out.String(), ok
}

const (
	pass    = `{"Action":"pass","Package":"m/a","Test":"TestX"}`
	okLine  = `{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}`
	skipOut = `{"Action":"output","Package":"m/a","Test":"TestY/sub","Output":"    y_test.go:3: no data\n"}`
	skip    = `{"Action":"skip","Package":"m/a","Test":"TestY/sub"}`
)

func TestVerdictsAreShownAndPassingIsQuiet(t *testing.T) {
	out, ok := read(t, &report{}, `{"Action":"output","Package":"m/a","Test":"TestX","Output":"chatter\n"}`, pass,
		okLine)
	if !ok || !strings.Contains(out, "ok  \tm/a\t0.1s\n") || strings.Contains(out, "chatter") ||
		!strings.HasSuffix(out, "1 tests passed, 0 failed, 0 skipped\n") {
		t.Errorf("%v %q", ok, out)
	}
}

func TestSlowTestsAreListedTheSlowestFirst(t *testing.T) {
	event := func(name, elapsed string) string {
		return `{"Action":"pass","Package":"m/a","Test":"` + name + `","Elapsed":` + elapsed + `}`
	}
	out, ok := read(t, &report{}, event("TestQuick", "4.9"), event("TestSlow", "6.2"), event("TestSlower", "30"),
		event("TestSlower/part", "29"))
	want := "slow: m/a TestSlower, 30 s\nslow: m/a TestSlow, 6 s\n4 tests passed"
	if !ok || !strings.HasPrefix(out, want) {
		t.Errorf("%q", out)
	}
}

func TestASkipMustBeOnTheList(t *testing.T) {
	for list, want := range map[string]bool{
		"":                          false,
		"a TestY/sub":               true,
		"a TestY # the whole test":  true,
		"m/a Test?":                 true,
		"* TestY":                   true,
		"b TestY":                   false,
		"a TestZ\n\n# comment":      false,
		"pytest a TestY is absent":  false,
		"a TestY/other\nc/m/a Test": false,
	} {
		allowed, err := parseList(list)
		if err != nil {
			t.Fatal(err)
		}
		out, ok := read(t, &report{allowed: allowed}, pass, skipOut, skip)
		if ok != want {
			t.Errorf("list %q: ok %v, want %v", list, ok, want)
		}
		if !ok && !strings.Contains(out, "not allowed to: m/a TestY/sub: y_test.go:3: no data") {
			t.Errorf("list %q: %q does not say which test and why", list, out)
		}
	}
	if _, ok := read(t, &report{anySkip: true}, pass, skip); !ok {
		t.Error("a skip failed though any may skip")
	}
}

func TestWhatFailsFails(t *testing.T) {
	for name, events := range map[string][]string{
		"a test": {pass, `{"Action":"output","Package":"m/a","Test":"TestF","Output":"want 1\n"}`,
			`{"Action":"fail","Package":"m/a","Test":"TestF"}`},
		"a package": {pass, `{"Action":"output","Package":"m/a","Output":"want 1\n"}`,
			`{"Action":"fail","Package":"m/a"}`},
		"a build": {pass, `{"ImportPath":"m/a","Action":"build-output","Output":"want 1\n"}`,
			`{"Action":"fail","Package":"m/a","FailedBuild":"m/a"}`},
		"a test cut off":     {pass, `{"Action":"output","Package":"m/a","Test":"TestF","Output":"want 1\n"}`},
		"no test at all":     {`want 1`},
		"vet, as plain text": {pass, `want 1`, `{"Action":"fail","Package":"m/a"}`},
	} {
		if out, ok := read(t, &report{}, events...); ok || !strings.Contains(out, "want 1") {
			t.Errorf("%s: ok %v, %q", name, ok, out)
		}
	}
}

func TestAListThatCannotBeReadIsRefused(t *testing.T) {
	for _, text := range []string{"only-one-word", "a b c", "a [", "[ b"} {
		if _, err := parseList(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
