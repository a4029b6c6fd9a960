//go:build !amd64 || purego

package sampling

const haveRelabel32, haveSubset16 = false, false

func relabel32(*int32, int, *uint32, *int32, *int32, uint32, uint32, int) int { return 0 }

func loadSources32(*int64, int, *int32, int, *int32, uint32, uint32, *uint32) uint32 { return 0 }

func subset16(*int64, int, uint64, int64, uint64) {}

func subset8(*int64, int, uint64, int64, uint64) {}
