package pinned

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func sysMap(f *os.File, n int) ([]byte, error) {
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h)
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return nil, err
	}
	return bytesAt(addr, n), nil
}

func sysUnmap(b []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func sysAlloc(n int, _ bool) (raw, data []byte, err error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, nil, err
	}
	b := bytesAt(addr, n)
	return b, b, nil
}

func sysFree(raw []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(raw))), 0, windows.MEM_RELEASE)
}
