package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/internal/expect/stores"
)

// A dataset elsewhere gives what its folder gives, by every command that reads it, and no output has the key.
func TestCommandsTakeAddressesAndTellNoSecret(t *testing.T) {
	s := stores.New(t)
	cache := t.TempDir()
	t.Setenv("KHOP_CACHE_DIR", cache)
	dir := filepath.Join(t.TempDir(), "x.khop")
	said := func(args ...string) string {
		t.Helper()
		var out, notes bytes.Buffer
		code := run(context.Background(), args, &out, &notes, false)
		expect.That(t, !strings.Contains(out.String()+notes.String(), stores.Secret), "%q tells the key", args)
		expect.That(t, code == exitDone || strings.Contains(strings.Join(args, " "), "none"), "%q: %s", args, &notes)
		return strings.ReplaceAll(out.String(), dir, "s3://bucket/x.khop")
	}
	said("generate", "sbm", dir, "--nodes", "500", "--features", "4")
	address := s.PutFolder(t, "bucket", "x.khop", dir)
	for _, line := range [][]string{{"info"}, {"sample", "--batches", "2", "--digest"}, {"info", "--deep"}} {
		here, there := said(append(line, dir)...), said(append(line, address)...)
		expect.That(t, here == there, "%q: %s\nelsewhere: %s", line, here, there)
	}
	for _, line := range [][]string{{"stage", address, "--json"}, {"check", address}, {"plan", address},
		{"export", address, filepath.Join(t.TempDir(), "y"), "--to", "numpy"}, {"info", "s3://bucket/none"},
		{"train", address, "--epochs", "1"}, {"stage", "s3://none:" + stores.Secret + "@bucket/x"}} {
		said(line...)
	}
	expect.OK(t, filepath.WalkDir(cache, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, e := os.ReadFile(path)
			err = e
			expect.That(t, !bytes.Contains(text, []byte(stores.Secret)), "%s has the key", path)
		}
		return err
	}))
}
