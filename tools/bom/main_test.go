package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

var khop = filepath.Join("..", "..")

func TestCommittedNoticesAreComplete(t *testing.T) {
	want, err := notices(khop)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(noticesFile(khop))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("cmd/khop/NOTICES.txt is not that of the modules in go.mod: run make notices, and commit it")
	}
}

func TestTheBillListsEveryModuleOfTheProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "khop")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/khop")
	cmd.Dir, cmd.Env = khop, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	text, err := bill(khop, program)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	listed := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		listed[c.Name+" "+c.Version] = c
	}
	for _, m := range info.Deps {
		if c, ok := listed[m.Path+" "+m.Version]; !ok || len(*c.Licenses) == 0 || (*c.Properties)[0].Value != m.Sum {
			t.Errorf("%s %s: %+v", m.Path, m.Version, c)
		}
	}
	if len(listed) != len(info.Deps)+1 || listed["std "+strings.TrimPrefix(info.GoVersion, "go")].Name == "" {
		t.Errorf("%d components for %d modules and Go's library", len(listed), len(info.Deps))
	}
	if again, err := bill(khop, program); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same program has another bill: %v", err)
	}
}

func TestAPartWithoutAKnownLicenceIsRefused(t *testing.T) {
	for _, texts := range []map[string]string{nil, {"LICENSE": "All rights reserved.\n"}} {
		if ids, err := identify(texts); err == nil {
			t.Errorf("%v has %v", texts, ids)
		}
	}
}
