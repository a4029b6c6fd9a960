package wire

import (
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
	"golang.org/x/sys/unix"
)

func TestOnlySealedMemoryOfTheRightSizeIsMapped(t *testing.T) {
	file := func(size int64, seals int) int {
		fd := expect.Must(unix.MemfdCreate("khop-test", unix.MFD_ALLOW_SEALING))(t)
		expect.OK(t, unix.Ftruncate(fd, size))
		expect.Must(unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals))(t)
		return fd
	}
	note := Segment{Size: 8192}
	pipe := make([]int, 2)
	expect.OK(t, unix.Pipe(pipe))
	defer unix.Close(pipe[1])
	for name, fd := range map[string]int{
		"no seals":     file(8192, 0),
		"may shrink":   file(8192, unix.F_SEAL_GROW|unix.F_SEAL_SEAL),
		"another size": file(4096, fixedSize),
		"a pipe":       pipe[0],
	} {
		if s, err := OpenMemory(note, fd, nil); err == nil {
			t.Errorf("%s: mapped", name)
			s.Close()
		}
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		expect.That(t, err != nil, "%s: the descriptor was left open", name)
	}
	s, err := OpenMemory(note, file(8192, fixedSize), nil)
	expect.Ensure(t, err == nil && len(s.Data) == 8192, "%v", err)
	s.Close()
}
