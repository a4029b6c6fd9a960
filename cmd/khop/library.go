//go:build libkhop && cgo

package main

import "github.com/khop-gnn/khop/cmd/libkhop"

// With the tag libkhop the command is a shared library, whose functions are in cmd/libkhop.
func init() { libkhop.Version = versionNumber }
