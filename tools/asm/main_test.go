package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestCommittedAssemblyIsWhatTheGeneratorGives(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("the generator gives no files")
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", path))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what tools/asm gives: run make asm, and commit it", path)
		}
	}
}
