package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// epoch is the time of every file of a release.
var epoch = time.Unix(315532800, 0).UTC()

// file goes into an archive: of a path on disk, or bytes.
type file struct {
	name string
	mode int64
	path string
	text []byte
}

func (f file) read() ([]byte, error) {
	if f.path == "" {
		return f.text, nil
	}
	return os.ReadFile(f.path)
}

// archive writes files below a folder of the archive's name: a .zip for Windows, else a .tar.gz.
func (r *release) archive(name, system string, files []file) error {
	below := make([]file, len(files))
	for i, f := range files {
		f.name = name + "/" + f.name
		below[i] = f
	}
	if system == "windows" {
		text, err := zipped(below)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(r.out, name+".zip"), text, 0o644)
	}
	text, err := tarred(below)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name+".tar.gz"), gzipped(text), 0o644)
}

// sorted returns files by name with their text; no two names may be the same: their order would be anyone's.
func sorted(files []file) ([]file, error) {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	for i := range files {
		if i > 0 && files[i].name == files[i-1].name {
			return nil, fmt.Errorf("two files are %s", files[i].name)
		}
		var err error
		if files[i].text, err = files[i].read(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// tarred returns a tar of files and of the folders that they lie in, sorted, of user 0.
func tarred(files []file) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	seen := map[string]bool{}
	for _, f := range files {
		var folders []string
		for dir := path.Dir(f.name); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			folders = append(folders, dir+"/")
		}
		slices.Reverse(folders)
		for _, dir := range folders {
			h := tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: epoch, Format: tar.FormatUSTAR}
			if err := w.WriteHeader(&h); err != nil {
				return nil, err
			}
		}
		h := tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text)), ModTime: epoch, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}

func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(text) // to memory
	_ = w.Close()
	return out.Bytes()
}

func zipped(files []file) ([]byte, error) {
	files, err := sorted(files)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		h := zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(os.FileMode(f.mode))
		to, err := w.CreateHeader(&h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.text); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return out.Bytes(), err
}
