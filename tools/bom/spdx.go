package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// What follows is of SPDX 2.3, by the names of its JSON.
type (
	spdxDocument struct {
		Version       string             `json:"spdxVersion"`
		License       string             `json:"dataLicense"`
		ID            string             `json:"SPDXID"`
		Name          string             `json:"name"`
		Namespace     string             `json:"documentNamespace"`
		Creation      spdxCreation       `json:"creationInfo"`
		Packages      []spdxPackage      `json:"packages"`
		Relationships []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		Name      string         `json:"name"`
		ID        string         `json:"SPDXID"`
		Version   string         `json:"versionInfo,omitempty"`
		Location  string         `json:"downloadLocation"`
		Analyzed  bool           `json:"filesAnalyzed"`
		Concluded string         `json:"licenseConcluded"`
		Declared  string         `json:"licenseDeclared"`
		Copyright string         `json:"copyrightText"`
		Checksums []spdxChecksum `json:"checksums,omitempty"`
		Refs      []spdxRef      `json:"externalRefs"`
	}
	spdxChecksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	spdxRef struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// spdxBill returns the bill of materials of a program as SPDX 2.3 has it: what bill says, in other words.
func spdxBill(khop, binary string) ([]byte, error) {
	text, err := bill(khop, binary)
	if err != nil {
		return nil, err
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return nil, err
	}
	const document, program = "SPDXRef-DOCUMENT", "SPDXRef-khop"
	module := strings.TrimPrefix(bom.Metadata.Component.PackageURL, "pkg:golang/")
	d := spdxDocument{Version: "SPDX-2.3", License: "CC0-1.0", ID: document, Name: "khop",
		Namespace:     "https://" + module + "/spdx/" + strings.TrimPrefix(bom.SerialNumber, "urn:uuid:"),
		Creation:      spdxCreation{"1980-01-01T00:00:00Z", []string{"Tool: khop-bom"}}, // the same bytes at any time
		Packages:      []spdxPackage{packageOf(*bom.Metadata.Component, program)},
		Relationships: []spdxRelationship{{document, "DESCRIBES", program}}}
	for i, c := range *bom.Components {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		d.Packages = append(d.Packages, packageOf(c, id))
		d.Relationships = append(d.Relationships, spdxRelationship{program, "CONTAINS", id})
	}
	out, err := json.MarshalIndent(d, "", "  ")
	return append(out, '\n'), err
}

func packageOf(c cdx.Component, id string) spdxPackage {
	p := spdxPackage{Name: c.Name, ID: id, Version: c.Version, Location: "NOASSERTION", Copyright: "NOASSERTION",
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", c.PackageURL}}}
	var licences []string
	for _, l := range *c.Licenses {
		licences = append(licences, l.License.ID)
	}
	p.Declared = strings.Join(licences, " AND ")
	p.Concluded = p.Declared
	if c.Hashes != nil {
		for _, h := range *c.Hashes {
			p.Checksums = append(p.Checksums, spdxChecksum{"SHA256", h.Value})
		}
	}
	return p
}
