package formats

import (
	"os"

	"golang.org/x/sys/unix"
)

// lowerPriority lets every other thread of the machine go before this one, on the processor and on disks. What the
// system refuses is left as it is.
func lowerPriority() {
	const (
		thisThread = 0
		process    = 1       // IOPRIO_WHO_PROCESS, which means a thread
		idle       = 3 << 13 // IOPRIO_CLASS_IDLE
	)
	_ = unix.Setpriority(unix.PRIO_PROCESS, thisThread, 19)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, thisThread, idle)
}

// adviseRandom keeps the system from reading ahead: pages read ahead would look like pages that somebody uses.
func adviseRandom(f *os.File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) }

// adviseMapped is adviseRandom for a file that is mapped.
func adviseMapped(b []byte) { _ = unix.Madvise(b, unix.MADV_RANDOM) }

// keepCache notes which pages of bytes from to to are in the page cache, and returns a function that drops those that
// have come since. mapped is the whole file.
func keepCache(f *os.File, mapped []byte, from, to int64) (restore func()) {
	page := int64(os.Getpagesize())
	first := from / page
	part := mapped[first*page : min((to+page-1)/page*page, int64(len(mapped)))]
	there := make([]byte, (int64(len(part))+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, addressOf(part), uintptr(len(part)),
		addressOf(there)); errno != 0 {
		return func() {}
	}
	return func() {
		for i := int64(0); i < int64(len(there)); i++ {
			lo := i
			for i < int64(len(there)) && there[i]&1 == 0 {
				i++
			}
			if i > lo {
				_ = unix.Fadvise(int(f.Fd()), (first+lo)*page, (i-lo)*page, unix.FADV_DONTNEED)
			}
		}
	}
}
