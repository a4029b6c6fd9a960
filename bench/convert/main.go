//go:build linux

// Command convert measures how fast khop converts edges on a disk, and what share that is of what the disk and the
// processors could do.
//
//	go run ./convert -dir /somewhere -edges 1000000000 -memory 2GiB
//
// It writes -edges pairs of an R-MAT graph to DIR/pairs.npy, whose ids are scrambled, converts them by `khop convert`,
// and removes everything but the pairs with -keep. -parts converts in this number of shares, merges them, and compares
// ids.
//
// The compulsory bytes are the source, read once, and the dataset, written once; where memory does not hold the edges,
// they also go to a file and back once, as often as any sort must do it. This program reads and writes as many with
// O_DIRECT, one block at a time, and once more through the page cache, as a program does that only copies: reading with
// one goroutine a core, writing with one. Times of these and the conversion's give the shares. It reads the source
// itself before, so that no conversion finds it in the page cache: it drops it there.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

type options struct {
	dir, khop, memory   string
	edges, parts, width int64
	levels              int
	keep                bool
}

func main() {
	log.SetFlags(0)
	var o options
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to be measured")
	flag.StringVar(&o.khop, "khop", "", "khop's program; built if not given")
	flag.StringVar(&o.memory, "memory", "2GiB", "--max-memory of the conversion")
	flag.Int64Var(&o.edges, "edges", 100_000_000, "how many edges")
	flag.Int64Var(&o.parts, "parts", 1, "convert in so many shares, and merge them")
	flag.Int64Var(&o.width, "width", 8, "bytes of an id: 4 or 8")
	flag.IntVar(&o.levels, "levels", 26, "the graph has 2^levels nodes at most")
	flag.BoolVar(&o.keep, "keep", false, "keep the pairs, and use those that are there")
	flag.Parse()
	if err := run(&o); err != nil {
		log.Fatal(err)
	}
}

// result is what is measured. Times are in seconds, bytes in bytes.
type result struct {
	Edges     int64      `json:"edges"`
	Source    int64      `json:"source_bytes"`
	Dataset   int64      `json:"dataset_bytes"`
	Temporary int64      `json:"temporary_bytes"`
	Direct    [2]float64 `json:"direct_read_write_bytes_per_second"`
	Copied    [2]float64 `json:"copied_read_write_bytes_per_second"`
	Converted *usage     `json:"converted"`
	Share     struct {
		Direct float64 `json:"direct"`
		Copied float64 `json:"copied"`
	} `json:"share"`
	Conversion json.RawMessage `json:"conversion"` // as khop says
}

func run(o *options) error {
	if o.dir == "" || o.width != 4 && o.width != 8 {
		return fmt.Errorf("-dir is needed, and -width is 4 or 8")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if err := checkRoom(o); err != nil {
		return err
	}
	if o.khop == "" {
		o.khop = filepath.Join(o.dir, "khop")
		defer os.Remove(o.khop)
		build := exec.Command("go", "build", "-o", o.khop, "./cmd/khop")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build khop, from the repository's root: %w", err)
		}
	}
	r := result{Edges: o.edges, Source: 2 * o.width * o.edges}
	path := filepath.Join(o.dir, "pairs.npy")
	if !o.keep {
		defer os.Remove(path)
	}
	begin := time.Now()
	if err := writePairs(path, o); err != nil {
		return err
	}
	log.Printf("pairs: %d bytes in %.1f s", r.Source, time.Since(begin).Seconds())
	if err := convert(o, path, &r); err != nil {
		return err
	}
	if err := r.probe(o, path); err != nil {
		return err
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	fmt.Println(string(text))
	return err
}

// probe measures the disk and says the shares.
func (r *result) probe(o *options, path string) error {
	read, written := r.Source+r.Temporary, r.Dataset+r.Temporary
	var err error
	if r.Direct, err = transfers(o.dir, path, min(read, written, 4<<30), true); err != nil {
		return err
	}
	if r.Copied, err = transfers(o.dir, path, min(read, written, 4<<30), false); err != nil {
		return err
	}
	seconds := func(rates [2]float64) float64 { return float64(read)/rates[0] + float64(written)/rates[1] }
	r.Share.Direct = seconds(r.Direct) / r.Converted.Wall
	r.Share.Copied = seconds(r.Copied) / r.Converted.Wall
	log.Printf("compulsory: %.2f GB read, %.2f GB written (temporary file %.2f GB each way)", float64(read)/1e9,
		float64(written)/1e9, float64(r.Temporary)/1e9)
	log.Printf("O_DIRECT, one block at a time: %.2f GB/s read, %.2f GB/s written: %.1f s, %.0f %% of the conversion",
		r.Direct[0]/1e9, r.Direct[1]/1e9, seconds(r.Direct), 100*r.Share.Direct)
	log.Printf("copied through the page cache: %.2f GB/s read, %.2f GB/s written: %.1f s, %.0f %% of the conversion",
		r.Copied[0]/1e9, r.Copied[1]/1e9, seconds(r.Copied), 100*r.Share.Copied)
	return nil
}
