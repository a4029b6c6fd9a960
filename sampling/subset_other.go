//go:build !amd64 || purego

package sampling

const haveSubset16 = false

func subset16(*int64, int, uint64, int64, uint64) {}

func subset8(*int64, int, uint64, int64, uint64) {}
