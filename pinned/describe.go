package pinned

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

type memoryKind uint8

const (
	memoryUnknown memoryKind = iota
	memoryOwn                // an anonymous region of Allocate
	memoryForeign            // other anonymous memory, the Go heap among it
	memoryFile               // a mapped file
)

// memory describes a range of addresses, as the system does.
type memory struct {
	kind             memoryKind
	why              string // of memoryUnknown
	path             string // of a file, as it was when it was mapped
	file             fileID
	fs               string  // "tmpfs", "hugetlbfs", or "" for any other
	lo, hi           uintptr // the mapping around the range
	offset           int64   // of lo in the file
	shared, writable bool
}

// describe finds out what b is, by the process's memory map.
func describe(b []byte) memory {
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	hi := lo + uintptr(len(b))
	if _, _, ok := own.around(lo, hi); ok {
		return memory{kind: memoryOwn, writable: true}
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		why := "the process's memory map cannot be read"
		if errors.Is(err, fs.ErrNotExist) {
			why = "the system does not tell what memory is"
		}
		return memory{why: why}
	}
	defer f.Close()
	m := readMaps(f, lo, hi)
	if m.kind == memoryFile {
		m.fs = fileSystem(m.path)
	}
	return m
}

// ErrNotMapped is returned for memory that is not of a mapped file, as far as the system knows.
var ErrNotMapped = errors.New("not a mapped file")

// OpenMapped opens the file that b is mapped from, for reading, and returns where in the file b begins. ErrNotMapped
// for other memory, and an error if another file has the name by now.
func OpenMapped(b []byte) (*os.File, int64, error) {
	if len(b) == 0 {
		return nil, 0, ErrNotMapped
	}
	m := describe(b)
	if m.kind != memoryFile {
		return nil, 0, fmt.Errorf("%w: %s", ErrNotMapped, cmp.Or(m.why, "it is other memory"))
	}
	f, err := os.Open(m.path)
	if err != nil {
		return nil, 0, err
	}
	if err := m.isOf(f); err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, m.offset + int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))-m.lo), nil
}

// area is a line of /proc/self/maps: "lo-hi perms offset major:minor inode   path".
type area struct {
	lo, hi uintptr
	perms  string // such as "r--s"
	offset int64
	file   fileID
	path   string
}

// fileID tells files apart, whatever their names.
type fileID struct {
	major, minor uint32
	inode        uint64
}

func parseFileID(device, inode string) (id fileID, ok bool) {
	major, minor, _ := strings.Cut(device, ":")
	m, err1 := strconv.ParseUint(major, 16, 32)
	n, err2 := strconv.ParseUint(minor, 16, 32)
	i, err3 := strconv.ParseUint(inode, 10, 64)
	return fileID{uint32(m), uint32(n), i}, err1 == nil && err2 == nil && err3 == nil
}

func parseArea(line string) (a area, ok bool) {
	fields := strings.SplitN(line, " ", 6)
	if len(fields) < 5 || len(fields[1]) < 4 {
		return area{}, false
	}
	lo, hi, _ := strings.Cut(fields[0], "-")
	l, err1 := strconv.ParseUint(lo, 16, 64)
	h, err2 := strconv.ParseUint(hi, 16, 64)
	o, err3 := strconv.ParseInt(fields[2], 16, 64)
	id, known := parseFileID(fields[3], fields[4])
	if err1 != nil || err2 != nil || err3 != nil || !known {
		return area{}, false
	}
	a = area{lo: uintptr(l), hi: uintptr(h), perms: fields[1], offset: o, file: id}
	if len(fields) == 6 {
		a.path = strings.ReplaceAll(strings.TrimLeft(fields[5], " "), `\012`, "\n")
	}
	return a, true
}

// readMaps describes the range lo to hi. One mapping may be split over several lines; they must agree.
func readMaps(maps io.Reader, lo, hi uintptr) memory {
	var first, last area
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		a, ok := parseArea(lines.Text())
		if !ok || a.hi <= lo {
			continue
		}
		switch {
		case first.hi == 0 && a.lo <= lo:
			first = a
		case first.hi == 0:
			return memory{why: "the range is not mapped"}
		case !a.continues(last):
			return memory{why: "the range is not one mapping"}
		}
		if last = a; a.hi >= hi {
			return first.memory(last.hi)
		}
	}
	return memory{why: "the range is not mapped"}
}

// continues reports whether a is the next part of the same mapping.
func (a *area) continues(last area) bool {
	sameFile := a.path == last.path && a.file == last.file && (a.file == fileID{} ||
		a.offset == last.offset+int64(last.hi-last.lo))
	return a.lo == last.hi && a.perms == last.perms && sameFile
}

// memory describes a mapping of which a is the first part.
func (a *area) memory(hi uintptr) memory {
	m := memory{kind: memoryForeign, shared: a.perms[3] == 's', writable: a.perms[1] == 'w'}
	if a.path != "" && a.path[0] == '/' {
		m.kind, m.path, m.file, m.lo, m.hi, m.offset = memoryFile, a.path, a.file, a.lo, hi, a.offset
	}
	return m
}

// own are the anonymous regions of Allocate, first byte to end. Nothing else may be registered as it lies: memory of
// the Go heap is given back to the system, and used again, behind the driver's back.
var own ranges
