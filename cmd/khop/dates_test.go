package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestADateIsATimeInTheDatasetsUnit: the same batches as by its number, whichever unit the dataset has.
func TestADateIsATimeInTheDatasetsUnit(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	edges := "src,dst,time\n0,1,1706572800\n1,2,1706659200\n2,3,1706702400\n3,0,1706745600\n"
	expect.OK(t, os.WriteFile(at("e.csv"), []byte(edges), 0o600),
		os.WriteFile(at("n.csv"), []byte("src,dst,time\n0,1,5\n1,2,6\n"), 0o600))
	batches := func(dataset, asOf string) string {
		return must(t, "sample", dataset, "--sampler", "temporal", "--seeds", "all", "--batch-size", "4", "--fanouts",
			"3", "--digest", "--as-of", asOf)
	}
	for unit, number := range map[string]string{"s": "1706659200", "ms": "1706659200000", "us": "1706659200000000",
		"ns": "1706659200000000000"} {
		must(t, "convert", at("e.csv"), at(unit), "--time-unit", unit, "--times-in", "s")
		for date, same := range map[string]string{"2024-01-31": number, "2024-01-31T00:00:00Z": number,
			"2024-01-31T02:00:00+02:00": number, "2024-01-31 00:00:00": number} {
			expect.Same(t, batches(at(unit), date), batches(at(unit), same))
		}
		before, noon := batches(at(unit), "2024-01-31T11:59:59Z"), batches(at(unit), "2024-01-31T12:00:00Z")
		expect.That(t, before != noon, "%s", unit)
	}
	must(t, "convert", at("n.csv"), at("n"))
	for asOf, says := range map[string]string{
		"2024-01-31": `--as-of is "2024-01-31", and the dataset does not say one unit in which its times count`,
		"soon":       `--as-of is "soon": must be a whole number, or a date such as 2024-01-31`,
		"2024-02-31": `--as-of is "2024-02-31": must be a whole number, or a date`,
	} {
		_, said, code := khop(t, "sample", at("n"), "--sampler", "temporal", "--seeds", "all", "--batch-size", "1",
			"--fanouts", "3", "--as-of", asOf)
		expect.That(t, code == exitUsage && strings.Contains(said, says), "%s: %d %s", asOf, code, said)
	}
}
