//go:build !amd64 || purego

package edgelist

// pairsVectors is a variable for tests.
var pairsVectors = false

func pairs32(*byte, int, byte, *int64, *int64, int) (bytes, lines int, most uint64) { return 0, 0, 0 }
