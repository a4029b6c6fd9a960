//go:build !amd64 || purego

package sampling

const haveRelabel32 = false

func relabel32(*int32, int, *uint32, *int32, *int32, uint32, uint32, int) int { return 0 }

func loadSources32(*int64, int, *int32, int, *int32, uint32, uint32, *uint32) uint32 { return 0 }
