package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/formats"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestEmbedWritesAColumnThatNoMemoryChanges trains, embeds with much memory and with little, and compares the columns.
func TestEmbedWritesAColumnThatNoMemoryChanges(t *testing.T) {
	data, model := small(t), filepath.Join(t.TempDir(), "model")
	must(t, "train", data, "--epochs", "2", "--checkpoint", model)
	args := []string{"embed", data, "--checkpoint", model}
	all := object(t, append(args, "--out", "all", "--json")...)
	must(t, append(args, "--out", "few", "--max-memory", "48MB", "--workers", "1")...)
	ds := expect.Must(formats.Open(data))(t)
	defer ds.Close()
	a, _ := ds.Graph().NodeColumn(0, "all")
	b, _ := ds.Graph().NodeColumn(0, "few")
	expect.That(t, all["nodes"] == float64(a.Len()) && a.Width() > 1, "%v", all)
	expect.Same(t, string(a.Bytes()), string(b.Bytes()), "the columns")
	_, err := os.Stat(data + ".khop-embed")
	expect.Is(t, err, os.ErrNotExist, "the folder of what was finished")
	file := filepath.Join(t.TempDir(), "rows.npy")
	must(t, append(args, "--out", file, "--nodes", "3-6")...)
	rows := expect.Must(os.ReadFile(file))(t)
	row := int(a.RowBytes())
	expect.Same(t, string(rows[len(rows)-4*row:]), string(a.Bytes()[3*row:7*row]), "rows 3 to 6")
	head := string(rows[:len(rows)-4*row])
	expect.That(t, len(head)%64 == 0 && strings.Contains(head, "(4, "), "%q", head)
	table := filepath.Join(t.TempDir(), "rows.parquet")
	must(t, append(args, "--out", table, "--nodes", "3-6")...)
	text := string(expect.Must(os.ReadFile(table))(t))
	expect.That(t, strings.HasPrefix(text, "PAR1") && strings.HasSuffix(text, "PAR1"), "%q", text)
	fails(t, exitFailed, "is no node", append(args, "--out", file, "--force", "--nodes", "3-9999999")...)
	fails(t, exitFailed, "--out is a column", append(args, "--nodes", "3")...)
	fails(t, exitFailed, `column "all"`, append(args, "--out", "all")...)
	fails(t, exitFailed, "--keep is for all nodes", append(args, "--out", file, "--force", "--nodes", "3", "--keep")...)
	must(t, append(args, "--out", "kept", "--keep")...)
	again := object(t, append(args, "--out", "kept", "--force", "--keep", "--json")...)
	expect.That(t, again["bytes_written"] == 0.0, "nothing has changed: %v", again["bytes_written"])
	kept := expect.Must(formats.Open(data))(t)
	defer kept.Close()
	c, _ := kept.Graph().NodeColumn(0, "kept")
	expect.Same(t, string(c.Bytes()), string(a.Bytes()), "what was kept")
	must(t, append(args, "--out", "all", "--force", "--layer", "1")...)
	fails(t, exitFailed, "--layer is 7, and the model has 2", append(args, "--layer", "7")...)
	fails(t, exitFailed, "--checkpoint: name the model", "embed", data)
	expect.OK(t, os.WriteFile(model, []byte("something else"), 0o600))
	fails(t, exitFailed, "not a checkpoint", args...)
}
