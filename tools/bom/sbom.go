package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// bill returns the bill of materials of a program in CycloneDX's JSON. It lists the modules from which the program says
// it was built. The serial number comes from the bytes of the program.
func bill(khop, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	all, err := parts(khop)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	main := program(info, hex.EncodeToString(sum[:]))
	var components []cdx.Component
	var needs []string
	library := &debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range append([]*debug.Module{library}, info.Deps...) {
		if m.Replace != nil { // by khop's own code: tools/release/json
			continue
		}
		c, err := component(m, all)
		if err != nil {
			return nil, err
		}
		components, needs = append(components, c), append(needs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, sum[:]).URN()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
	return out.Bytes(), err
}

func program(info *debug.BuildInfo, sum string) cdx.Component {
	var settings []cdx.Property
	for _, s := range info.Settings {
		settings = append(settings, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	return cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "khop", BOMRef: "pkg:golang/" + info.Main.Path,
		PackageURL: "pkg:golang/" + info.Main.Path,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Licenses:   &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &settings,
	}
}

// component describes a module, with the hash that go.sum has of it.
func component(m *debug.Module, all []part) (cdx.Component, error) {
	for _, p := range all {
		if p.Path != m.Path {
			continue
		}
		url := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: url,
			PackageURL: url}
		licences := cdx.Licenses{}
		for _, id := range p.Licences {
			licences = append(licences, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		c.Licenses = &licences
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		return c, nil
	}
	return cdx.Component{}, fmt.Errorf("the program contains %s %s, which cmd/khop does not import: build it from this"+
		" tree", m.Path, m.Version)
}
