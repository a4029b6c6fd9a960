//go:build !race

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

type exit struct {
	args string
	code int
	text string // on stderr, or on stdout where the status is 0
}

// exits are command lines and how they end, given two datasets, an empty directory and an edge list.
func exits(data, unsplit, empty, list string) []exit {
	return []exit{
		{"", exitDone, "Usage: khop <command>"},
		{"--help", exitDone, "bench"},
		{"sample --help", exitDone, "--fanouts"},
		{"generate --help", exitDone, "stochastic block model"},
		{"docter", exitUsage, `did you mean "doctor"?`},
		{"sampel " + data, exitUsage, `did you mean "sample"?`},
		{"sample " + data + " --fanout 3", exitUsage, "--fanouts"},
		{"sample", exitUsage, `See "khop sample --help"`},
		{"sample " + data + " --fanouts 5,x", exitUsage, `fan-out "x"`},
		{"sample " + data + " --fanouts cites=5", exitUsage, `no edge type "cites"`},
		{"sample " + data + " --batch-size 0", exitUsage, "--batch-size is 0: must be 1 to 1073741824"},
		{"sample " + data + " --rank 2 --world-size 2", exitUsage, "--rank is 2"},
		{"sample " + data + " --json --jsonl", exitUsage, "--json"},
		{"sample " + data + " --frontier old", exitUsage, "all"},
		{"sample " + data + " --rank 3", exitUsage, "khop: --rank is 3: must be 0 to 0"},
		{"sample " + data + " --device cuda", exitFailed, "no CUDA device"},
		{"sample " + data + " --device cpu --batches 1", exitDone, "nodes"},
		{"sample " + data + " --seeds nosuch", exitUsage, "there are: train (split 0)"},
		{"sample " + data + " --seeds all:paper", exitUsage,
			`--seeds all:paper: no node type "paper"; there are: node`},
		{"sample " + data + " --split 3", exitUsage, `"train" (split 3)`},
		{"sample " + data + " --batch-size 500 --first 99", exitUsage, "--first 99: an epoch has "},
		{"sample " + data + " --seeds @" + empty + "/none", exitFailed, "none"},
		{"sample " + data + " --max-memory 1kB", exitFailed, "allow at least"},
		{"sample " + data + " --max-memory lots", exitUsage, "4GB"},
		{"sample " + empty, exitFailed, empty},
		{"info " + empty + "/none", exitFailed, "name the directory of a dataset"},
		{"check " + data, exitDone, "are right"},
		{"check " + empty, exitFailed, empty},
		{"generate sbm " + data, exitFailed, "complete dataset"},
		{"generate sbm " + data + " --nodes 2000 --force", exitDone, "2,000 nodes"},
		{"convert " + list + " " + empty + "/list.khop", exitDone, "3 nodes, 2 edges"},
		{"convert " + list + " " + empty + "/list.khop", exitFailed, "complete dataset"},
		{"convert " + list + " " + empty + "/list.khop --force --symmetrise", exitDone, "4 edges"},
		{"convert " + list + " x.khop --symmetrise --directed", exitUsage, "--directed"},
		{"convert " + list + " x.khop --from nosuch", exitUsage, "edgelist"},
		{"convert " + list + " " + empty + "/small.khop --max-memory 1kB", exitFailed, "allow at least"},
		{"convert " + empty + "/none x.khop", exitFailed, "none"},
		{"convert " + filepath.Dir(list) + "/header.csv x.khop", exitFailed, "there is no edge in it"},
		{"generate nosuch x", exitUsage, "sbm"},
		{"generate sbm " + empty + "/x --nodes -5", exitUsage, "--nodes is -5"},
		{"generate sbm " + empty + "/no/such/folder", exitFailed, "no such file"},
		{"completion tcsh", exitUsage, "bash"},
		{"bench " + unsplit + " --batches 0", exitUsage, "not a number from 1 to 2147483647"},
		{"bench " + unsplit + " --warmup -1", exitUsage, "--warmup"},
	}
}

func TestExitStatusAndMessage(t *testing.T) {
	data := small(t)
	unsplit := filepath.Join(t.TempDir(), "rmat.khop")
	must(t, "generate", "rmat", unsplit, "--nodes", "500", "--edges", "2000")
	empty, list := t.TempDir(), filepath.Join(t.TempDir(), "list.txt")
	header := filepath.Join(filepath.Dir(list), "header.csv")
	expect.OK(t, os.WriteFile(list, []byte("0 1\n1 2\n"), 0o600), os.WriteFile(header, []byte("src,dst\n"), 0o600))
	for _, c := range exits(data, unsplit, empty, list) {
		out, errOut, code := khop(t, strings.Fields(c.args)...)
		where := errOut
		if c.code == exitDone {
			where = out
		}
		expect.That(t, code == c.code && strings.Contains(where, c.text), "khop %s: status %d, want %d, and %q in:\n%s",
			c.args, code, c.code, c.text, where)
		expect.That(t, code == exitDone || out == "" && !strings.Contains(errOut, "goroutine"),
			"khop %s: failed, but printed %q; stderr %q", c.args, out, errOut)
	}
}
