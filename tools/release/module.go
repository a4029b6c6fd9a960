package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// moduleZip writes the module of the last commit into a folder @v of a proxy of files, as a proxy would serve it.
func moduleZip(root, version, folder string) error {
	p, err := readProject(root)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := zip.CreateFromVCS(&out, module.Version{Path: p.Module, Version: version}, root, "HEAD", ""); err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{".zip": out.Bytes(), ".mod": mod,
		".info": fmt.Appendf(nil, `{"Version": %q, "Time": %q}`, version, epoch.Format("2006-01-02T15:04:05Z"))} {
		if err := os.WriteFile(filepath.Join(folder, version+name), text, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, "list"), []byte(version+"\n"), 0o644)
}
