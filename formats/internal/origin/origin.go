// Package origin says where a dataset in a folder of a cache comes from. The folder of an entry has an index, which
// package staged writes, and beside it the dataset's own folder.
package origin

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Names in the folder of an entry.
const (
	Data  = "data"       // the folder of the dataset
	Index = "index.json" // which files the entry has, and where they come from
)

// Of returns where the dataset in a folder of a cache lies; "" of any other folder.
func Of(dir string) string {
	if filepath.Base(dir) != Data {
		return ""
	}
	var x struct {
		Source string `json:"source"`
		Chunk  int64  `json:"chunk"`
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), Index))
	if err != nil || json.Unmarshal(text, &x) != nil || x.Chunk <= 0 {
		return ""
	}
	return x.Source
}
