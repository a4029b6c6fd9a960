package main

import (
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// TestSplitsThatShareNodesAreSaidEverywhere adds a split some of whose nodes are in another.
func TestSplitsThatShareNodesAreSaidEverywhere(t *testing.T) {
	data := small(t)
	more := textFile(t, "more.npy", string(expect.NPY([]int64{7, 3, 1999})))
	again := textFile(t, "again.npy", string(expect.NPY([]int64{3, 5, 1999})))
	must(t, "add", data, "--split", "first="+more)
	const says = `the splits "first" and "second" (index 0) share 2 nodes of type "node", such as node 3`
	fails(t, exitFailed, says, "add", data, "--split", "second="+again, "--strict")
	expect.That(t, object(t, "info", data, "--json")["generation"] == 2.0, "--strict has written")
	_, note, code := khop(t, "add", data, "--split", "second="+again)
	expect.That(t, code == exitDone && strings.Contains(note, "khop: note: "+says), "add: %d %s", code, note)
	for _, command := range []string{"info", "check"} {
		out := must(t, command, data, "--deep")
		expect.That(t, strings.Contains(out, "hint: "+says), "%s: %s", command, out)
	}
	_, note, code = khop(t, "train", data, "--epochs", "1")
	expect.That(t, code == exitDone && strings.Contains(note, "khop: note: "+says), "train: %d %s", code, note)
}

// TestLinksThatTheirSplitDoesNotFollowAreNoLeak deals links, and follows what they may.
func TestLinksThatTheirSplitDoesNotFollowAreNoLeak(t *testing.T) {
	data := small(t)
	out := must(t, "split", data, "--links", "--names", "learn,valid,exam", "--val", "300", "--seed", "4")
	expect.That(t, strings.Contains(out, "small.khop: of 20,000 links, "), "%s", out)
	hints := must(t, "check", data, "--deep")
	expect.That(t, !strings.Contains(hints, "split valid") && !strings.Contains(hints, "split exam"), "%s", hints)
	must(t, "sample", data, "--seeds", "valid", "--mask", "valid_graph", "--batches", "1")
	fails(t, exitFailed, `there is a split "exam" already: choose another name, or replace it (--force)`,
		"split", data, "--links", "--names", "learn,valid,exam")
	fails(t, exitUsage, "--undirected is for --links", "split", data, "--undirected")
}
