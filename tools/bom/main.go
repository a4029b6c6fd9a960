// Command bom says what others wrote of the khop program, and under which licences. It is a module of its own, so that
// khop depends on nothing for it.
//
//	make notices        writes cmd/khop/NOTICES.txt, which the program shows with "khop version --notices"
//	make sbom           writes dist/khop.cdx.json, the bill of materials of dist/khop, in CycloneDX 1.6
//
// "make release" has the bill in SPDX 2.3, too. All are functions of their input: the same modules give the same bytes.
//
// Known tools were tried on khop and did not fit. cyclonedx-gomod v1.10.0 finds one licence for each module, of
// arrow's ten the first, and the GPL for freetype, of which khop takes the other licence; it finds none for Go's
// library. go-licenses v1.6.0 leaves out what only a build for another system or with a tag has, versions and Go's
// library; it asks the network, takes a minute, and prints nothing where it was built with -trimpath. Its v2 cannot
// be installed from module proxies.
package main

import (
	"fmt"
	"log"
	"os"
)

const usage = `usage: bom notices KHOP      writes cmd/khop/NOTICES.txt of the module in the folder KHOP
       bom sbom KHOP BINARY  prints the bill of materials of a program that was built from it
       bom spdx KHOP BINARY  prints it in SPDX's form`

func main() {
	log.SetFlags(0)
	log.SetPrefix("bom: ")
	bills := map[string]func(khop, binary string) ([]byte, error){"sbom": bill, "spdx": spdxBill}
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "notices":
		var text []byte
		if text, err = notices(args[1]); err == nil {
			err = os.WriteFile(noticesFile(args[1]), text, 0o644)
		}
	case len(args) == 3 && bills[args[0]] != nil:
		var text []byte
		if text, err = bills[args[0]](args[1], args[2]); err == nil {
			_, err = os.Stdout.Write(text)
		}
	default:
		err = fmt.Errorf("%s", usage)
	}
	if err != nil {
		log.Fatal(err)
	}
}
