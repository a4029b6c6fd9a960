//go:build linux

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const block = 4 << 20

// transfers reads the first bytes of a file and writes as many to another, and returns both rates in bytes a second.
// Directly they pass the page cache by, else they go through it, and writing ends when they are on the disk.
func transfers(dir, path string, bytes int64, direct bool) (rates [2]float64, err error) {
	flag := 0
	if direct {
		flag = unix.O_DIRECT
	}
	from, err := os.OpenFile(path, os.O_RDONLY|flag, 0)
	if err != nil {
		return rates, err
	}
	defer from.Close()
	if err := drop(from); err != nil {
		return rates, err
	}
	workers := 1
	if !direct {
		workers = runtime.GOMAXPROCS(0)
	}
	blocks := max(bytes/block, 1)
	begin := time.Now()
	if err := inTurn(workers, blocks, aligned(func(at int64, buf []byte) error {
		_, err := from.ReadAt(buf, at*block)
		return err
	})); err != nil {
		return rates, err
	}
	rates[0] = float64(blocks*block) / time.Since(begin).Seconds()
	name := filepath.Join(dir, "transfer.tmp")
	defer os.Remove(name)
	to, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|flag, 0o600)
	if err != nil {
		return rates, err
	}
	defer to.Close()
	begin = time.Now()
	if err := inTurn(1, blocks, aligned(func(at int64, buf []byte) error {
		_, err := to.WriteAt(buf, at*block)
		return err
	})); err != nil {
		return rates, err
	}
	err = to.Sync()
	rates[1] = float64(blocks*block) / time.Since(begin).Seconds()
	return rates, err
}

// aligned returns a function that does something with a block, in memory that O_DIRECT takes.
func aligned(do func(at int64, buf []byte) error) func() func(at int64) error {
	return func() func(at int64) error {
		memory := make([]byte, block+4096)
		skip := -uintptr(unsafe.Pointer(&memory[0])) & 4095
		buf := memory[skip:][:block]
		for i := range buf {
			buf[i] = byte(i)
		}
		return func(at int64) error { return do(at, buf) }
	}
}

// inTurn has workers do n things, each every so many-th. worker returns what one of them does.
func inTurn(workers int, n int64, worker func() func(at int64) error) error {
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			do := worker()
			for at := int64(w); at < n; at += int64(workers) {
				if err := do(at); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}
