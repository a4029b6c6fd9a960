//go:build !amd64 || purego

package sampling

const haveRelabel32, haveSubset16, haveLook8 = false, false, false

func relabel32(*int32, int, *uint32, *int32, *int32, uint32, uint32, int) int { return 0 }

func loadSources32(*int64, int, *int32, int, *int32, uint32, uint32, *uint32) uint32 { return 0 }

func subset16(*int64, int, uint64, int64, uint64) {}

func subset8(*int64, int, uint64, int64, uint64) {}

func look8(*int32, int, uint64, uint64, uint64, *uint64, *uint64) int { return 0 }

func lookTurn8(*int32, int, uint64, uint64, uint64, uint64, uint64, uint64, *uint64, *uint64) int {
	return 0
}

func countUpTo8(*uint64, int, uint64) int { return 0 }

func keepUpTo8(*uint64, *uint64, int, uint64) {}

func leastOf8(*uint64, *uint64, int, int) int { return 0 }
