package pinned

// Populate reads the pages that b touches, in order, and enters them in the page table, so that the first random read
// of each costs no fault. b may be part of a mapped file; nothing is written. Pages that it reads from the disk are on
// huge pages if the file system supports them (XFS, and ext4 from Linux 6.16 on), so that random reads miss no page
// tables; pages in the page cache stay as they are. errors.ErrUnsupported if the system cannot do it (Linux can from
// 5.14 on), ErrFault if a file was cut short.
func Populate(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return populate(b)
}

// ReadAhead asks the system to read the pages that b touches, a part of a mapped file, and does not wait for them. It
// is a hint, which systems other than Linux do not get.
func ReadAhead(b []byte) { hint(b, soon) }

// ReadAtRandom tells the system whether the pages which b touches, a part of a mapped file, are read at random: a fault
// then reads its own page alone, and the system no longer looks at which pages of the mapping were read when it needs
// memory. It is a hint, which systems other than Linux do not get.
func ReadAtRandom(b []byte, on bool) {
	if on {
		hint(b, atRandom)
	} else {
		hint(b, inOrder)
	}
}

// ReadOnHugePages asks that pages which b touches, a part of a mapped file, are read from the disk as parts of huge
// pages: reading one of them then reads 2 MiB. It is a hint, which systems other than Linux do not get.
func ReadOnHugePages(b []byte) {
	if len(b) >= HugePage {
		hint(b, onHugePages)
	}
}
