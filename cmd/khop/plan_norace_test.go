//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/machine"
	"github.com/khop-gnn/khop/pinned"
)

// planned is what "khop plan --json" prints, as far as tests look.
type planned struct {
	Batches, Rows int64
	Caches        []struct {
		CacheBytes int64 `json:"cache_bytes"`
		Policies   []struct {
			Policy                    string
			Misses, Seconds, Requests float64
		}
	}
	KneeBytes int64 `json:"knee_bytes"`
	Workers   int
	Needs     int64 `json:"needs_bytes"`
}

func TestPlanComparesPoliciesBySizeOfTheCache(t *testing.T) {
	if _, _, err := pinned.OpenMapped([]byte{1}); strings.Contains(err.Error(), "does not tell") {
		t.Skip("the system does not tell which file is mapped")
	}
	data, plot := small(t), filepath.Join(t.TempDir(), "plan.svg")
	args := []string{"plan", data, "--fanouts", "5,3", "--frontier", "all", "--batch-size", "100",
		"--shuffle", "--plot", plot}
	var o planned
	expect.OK(t, json.Unmarshal([]byte(must(t, append(args, "--json")...)), &o))
	expect.Ensure(t, o.Batches == 12 && o.Rows != 0 && len(o.Caches) == 6, "got %+v", o)
	last := 2 * float64(o.Rows)
	for _, c := range o.Caches {
		misses := map[string]float64{}
		for _, p := range c.Policies {
			misses[p.Policy] = p.Misses
		}
		if best := misses["optimum"]; best > misses["lru"] || best > misses["sieve"] || best > misses["static"] ||
			misses["look-ahead"] > best || best > last {
			t.Errorf("%d bytes: %v", c.CacheBytes, misses)
		}
		last = misses["optimum"]
	}
	svg, err := os.ReadFile(plot)
	expect.That(t, err == nil && strings.Contains(string(svg), "look-ahead"), "the plot: %v", err)
	text := must(t, args...)
	expect.That(t, strings.Contains(text, "knee") && strings.Contains(text, "optimum"), "got %s", text)
}

func TestPlanSaysWhatPackingSpares(t *testing.T) {
	if _, _, err := pinned.OpenMapped([]byte{1}); strings.Contains(err.Error(), "does not tell") {
		t.Skip("the system does not tell which file is mapped")
	}
	args := []string{"plan", small(t), "--fanouts", "5,3", "--batch-size", "100", "--shuffle", "--pack", "10MB"}
	var o planned
	expect.OK(t, json.Unmarshal([]byte(must(t, append(args, "--json")...)), &o))
	spared := false
	for _, c := range o.Caches {
		expect.Ensure(t, len(c.Policies) == 6 && c.Policies[5].Policy == "packed", "%d bytes: %+v", c.CacheBytes,
			c.Policies)
		spared = spared || c.Policies[5].Requests < c.Policies[3].Requests
	}
	expect.That(t, spared, "%+v", o)
	text := must(t, args...)
	expect.That(t, strings.Contains(text, "disk --pack") && strings.Contains(text, "rows packed"), "got %s", text)
}

// Of a topology on disk a plan says how many workers there will be, and what they take, or that there is no room.
func TestPlanSaysHowManyWorkersATopologyOnDiskHas(t *testing.T) {
	if _, _, err := pinned.OpenMapped([]byte{1}); strings.Contains(err.Error(), "does not tell") {
		t.Skip("the system does not tell which file is mapped")
	}
	args := []string{"plan", small(t), "--fanouts", "5,3", "--batch-size", "100", "--cache-bytes", "5kB"}
	var o planned
	expect.OK(t, json.Unmarshal([]byte(must(t, append(args, "--json")...)), &o))
	if text := must(t, args...); o.Workers == 0 || o.Needs == 0 ||
		!strings.Contains(text, fmt.Sprintf("training has %d workers (%d cores)", o.Workers, machine.Workers())) {
		t.Errorf("%d workers, %d bytes: %s", o.Workers, o.Needs, text)
	}
	text := must(t, append(args, "--max-memory", "48MB")...)
	expect.That(t, strings.Contains(text, "training would be refused"), "in 48 MB: %s", text)
}

func TestResidenceChangesNoBatch(t *testing.T) {
	data := small(t)
	want := strings.Join(digests(t, data), "\n")
	for _, how := range []string{"mapped", "resident", "disk", "auto"} {
		got := digests(t, data, "--residence", how, "--cache-bytes", "5kB", "--lookahead", "3")
		expect.That(t, strings.Join(got, "\n") == want, "--residence %s made other batches", how)
	}
	verified := digests(t, data, "--residence", "disk", "--cache-bytes", "5kB", "--verify")
	expect.That(t, strings.Join(verified, "\n") == want, "with --verify there are other batches")
	fails(t, exitUsage, "contradict", "sample", data, "--resident", "--residence", "disk")
}

func TestBenchSaysWhatWasReadOfColumnsOnDisk(t *testing.T) {
	data := small(t)
	text := must(t, "bench", data, "--residence", "disk", "--cache-bytes", "5kB", "--batches", "12", "--no-memcpy")
	expect.That(t, strings.Contains(text, "requests and"), "got %s", text)
}
