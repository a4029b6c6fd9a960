package loader

// share is the part of an epoch that one of several ranks has.
type share struct {
	rank, world uint64
	remainder   Remainder
}

// rounds returns how many batches the rank has of n that all ranks share.
func (s share) rounds(n uint64) uint64 {
	switch s.remainder {
	case Drop:
		return n / s.world
	case Short:
		return (n + s.world - 1 - s.rank) / s.world
	default:
		return (n + s.world - 1) / s.world
	}
}
