package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// Memory within a process is handed over by its address, and given back by the last who keeps it.
func TestMemoryWithinAProcessIsSharedUntilTheLastLetsGo(t *testing.T) {
	m := expect.Must(NewMemory(pinned.HugePage, Within, pinned.Options{}))(t)
	at := uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))
	note := m.Note(2)
	if note.Is != SegmentWithin || note.Memory != OnHost || note.Size != pinned.HugePage || note.Index != 2 ||
		m.FD != -1 ||
		binary.LittleEndian.Uint64(note.Handle[:]) != uint64(at) || at%pinned.HugePage != 0 ||
		m.Placement() != pinned.Host || cap(m.Data) != pinned.HugePage {
		t.Errorf("%+v of memory at %x, %d bytes", note, at, cap(m.Data))
	}
	there := func() bool { // whether something is mapped there
		_, _, errno := unix.Syscall(unix.SYS_MSYNC, at, uintptr(unix.Getpagesize()), unix.MS_ASYNC)
		return errno == 0
	}
	m.Data[7] = 1
	m.Keep()
	m.Keep()
	for left := 2; left >= 0; left-- {
		expect.Ensure(t, there() && m.Data != nil, "the memory is gone, and %d keep it", left+1)
		expect.OK(t, m.Close())
	}
	expect.That(t, !there() && m.Data == nil && m.FD == -1, "the last has let go, and the memory is there still")
}

// Owned bytes are as they were; what their pages share with others is cut off, and nothing else.
func TestOwnedBytesAreCutOffFromTheOthers(t *testing.T) {
	page := unix.Getpagesize()
	m := expect.Must(NewMemory(pinned.HugePage, ReadWrite, pinned.Options{}))(t)
	defer m.Close()
	for i := range m.Data {
		m.Data[i] = byte(i / 100)
	}
	for _, c := range [][2]int{{10, 20}, {page - 1, page + 1}, {2 * page, 3 * page}, {pinned.HugePage - 5,
		pinned.HugePage}} {
		fd := expect.Must(unix.FcntlInt(uintptr(m.FD), unix.F_DUPFD_CLOEXEC, 0))(t)
		theirs := expect.Must(OpenMemory(m.Note(0), fd, nil))(t)
		expect.OK(t, theirs.Own(c[0], c[1]))
		expect.That(t, bytes.Equal(m.Data, theirs.Data), "bytes %v: what is owned is another", c)
		for at := 0; at < pinned.HugePage; at += page {
			own := at+page > c[0]/page*page && at < c[1]
			old := m.Data[at]
			m.Data[at]++
			seen := theirs.Data[at] != old
			expect.That(t, seen != own, "bytes %v: a change of page %d is seen: %v", c, at/page, seen)
			m.Data[at] = old
		}
		expect.OK(t, theirs.Close())
	}
}

// Slots come back as they were written, whatever is in the list before.
func TestSlotsAreReadAsTheyWereWritten(t *testing.T) {
	slots := []uint32{7, 0, 1<<32 - 1, 256}
	for n := range len(slots) + 1 {
		m, tail, err := Parse[Next](AppendNext(nil, 3, 9, slots[:n]))
		expect.Ensure(t, err == nil && m.Run == 3 && m.Done == 9 && m.Count == uint32(n), "%+v, %v", m, err)
		got := AppendSlots([]uint32{5}, tail)
		expect.That(t, slices.Equal(got, append([]uint32{5}, slots[:n]...)), "%v", got)
	}
	_, _, err := Parse[Next](AppendNext(nil, 3, 9, make([]uint32, MaxReturned)))
	expect.That(t, err == nil, "as many as may be: %v", err)
	if _, _, err := Parse[Next](AppendNext(nil, 3, 9, make([]uint32, MaxReturned+1))); !errors.Is(err, ErrMessage) {
		t.Errorf("one more than may be: %v", err)
	}
}

// Two descriptors have the same layout where names, dtypes, ranks and flags are the same, wherever their batch is.
func TestALayoutIsOfNamesAndTypes(t *testing.T) {
	of := func(f Form, number uint64) []byte {
		d := NewDescriptor([]Form{{Name: "num_nodes", DType: unified.Int64, Rank: 2}, f})
		PutPlace(d, 4, number, number+1, 1)
		PutArray(d, 0, 0, 64*number, []int64{int64(number), 1})
		return d
	}
	form := Form{Name: "nodes/node", DType: unified.Int32, Rank: 1, Flags: 3}
	same := Layout(of(form, 1))
	expect.That(t, same != 0 && Layout(of(form, 2)) == same && Layout(of(form, 1)[:3]) == 0, "layouts %x, %x, %x", same,
		Layout(of(form, 2)), Layout(of(form, 1)[:3]))
	for _, other := range []Form{{Name: "nodes/nod", DType: unified.Int32, Rank: 1, Flags: 3},
		{Name: "nodes/node", DType: unified.Int64, Rank: 1, Flags: 3}, {Name: "nodes/node", DType: unified.Int32,
			Rank:  2,
			Flags: 3}, {Name: "nodes/node", DType: unified.Int32, Rank: 1, Flags: 2}} {
		expect.That(t, Layout(of(other, 1)) != same, "%+v has the layout of %+v", other, form)
	}
	epoch, number, next := PlaceOf(of(form, 8))
	expect.That(t, epoch == 4 && number == 8 && next == 9, "epoch %d, number %d, next %d", epoch, number, next)
	if epoch, number, next := PlaceOf(of(form, 8)[:8]); epoch != 0 || number != 0 || next != 0 {
		t.Errorf("of a descriptor that is too short: %d, %d, %d", epoch, number, next)
	}
}
