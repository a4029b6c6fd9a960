package wire

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestOnlySealedMemoryOfTheRightSizeIsMapped(t *testing.T) {
	file := func(size int64, seals int) int {
		fd, err := unix.MemfdCreate("khop-test", unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Ftruncate(fd, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		return fd
	}
	note := Segment{Size: 8192}
	pipe := make([]int, 2)
	if err := unix.Pipe(pipe); err != nil {
		t.Fatal(err)
	}
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
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s: the descriptor was left open", name)
		}
	}
	s, err := OpenMemory(note, file(8192, fixedSize), nil)
	if err != nil || len(s.Data) != 8192 {
		t.Fatal(err)
	}
	s.Close()
}
