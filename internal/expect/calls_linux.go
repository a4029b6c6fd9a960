package expect

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call about a file.
type Call struct {
	Name string // of the kernel's
	Path string
}

// watched are the calls that FailingCall counts. Not among them is close, which cannot fail and leave nothing open.
var watched = map[uint32]string{
	unix.SYS_OPENAT: "openat", unix.SYS_READ: "read", unix.SYS_PREAD64: "pread64",
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite64", unix.SYS_FSYNC: "fsync", unix.SYS_FTRUNCATE: "ftruncate",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_FSTAT: "fstat", unix.SYS_STATFS: "statfs", unix.SYS_LSEEK: "lseek",
	unix.SYS_FLOCK: "flock", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_LINKAT: "linkat", unix.SYS_GETDENTS64: "getdents64", unix.SYS_MMAP: "mmap", unix.SYS_STATX: "statx",
	sysStatAt: "newfstatat",
}

// named are the calls whose second argument is a path, and those whose first is.
var named = map[string]bool{"openat": true, "mkdirat": true, "unlinkat": true, "renameat": true,
	"renameat2": true, "linkat": true, "statx": true, "newfstatat": true}

// FailingCall calls f on a thread of its own, where the system call of a number, counted from 0, fails with an error;
// -1 for none. It returns the calls about files below dir that f made there, up to the one that failed. What f has
// other goroutines do is neither seen nor failed. The test skips where the kernel does not let a program watch its own
// calls (seccomp).
func FailingCall(t testing.TB, dir string, number int, failure error, f func()) []Call {
	t.Helper()
	w := &watcher{dir: dir, number: number}
	if number >= 0 {
		w.errno = failure.(unix.Errno)
	}
	listener, ready, done := make(chan int), make(chan error), make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with its filter
		fd, err := watch()
		ready <- err
		if err == nil {
			listener <- fd
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Skip("this machine does not let a test watch its system calls: ", err)
	}
	w.listener = <-listener
	var end [2]int
	if err := unix.Pipe2(end[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error)
	go func() { answered <- w.answer(end[0]) }()
	<-done
	err := errors.Join(unix.Close(end[1]), <-answered, unix.Close(end[0]), unix.Close(w.listener))
	if err != nil {
		t.Fatal(err)
	}
	return w.calls
}

// watch has the kernel ask about the calls of this thread, and returns where it asks.
func watch() (int, error) {
	const number, firstArgument, mapped = 0, 16, 48 // where they lie in what a filter may read
	own, err := ofRuntime()
	if err != nil {
		return 0, err
	}
	var code []unix.SockFilter
	load := func(at uint32) {
		code = append(code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
	}
	where := func(value, verdict uint32) {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: value},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict})
	}
	load(firstArgument)
	for _, fd := range own {
		where(fd, unix.SECCOMP_RET_ALLOW)
	}
	load(number)
	for nr := range watched {
		if nr != unix.SYS_MMAP {
			where(nr, unix.SECCOMP_RET_USER_NOTIF)
		}
	}
	where(unix.SYS_MMAP, unix.SECCOMP_RET_USER_NOTIF)
	last := len(code) - 1 // memory of no file is Go's runtime's, which holds a lock meanwhile
	load(mapped)
	where(math.MaxUint32, unix.SECCOMP_RET_ALLOW)
	code = append(code, code[last], unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	code = slices.Delete(code, last, last+1)
	code[last-1].Jf = 4
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	const waitKillable = 1 << 5 // no other signal makes a call begin anew
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|waitKillable, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return 0, errno
	}
	return int(fd), nil
}

// ofRuntime returns the descriptors by which Go's runtime wakes its threads and says why it panics: it holds a
// processor, or all of them, while it writes there.
func ofRuntime() (list []uint32, err error) {
	r, w, err := os.Pipe() // it makes them, if nothing has before
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	list = []uint32{0, 1, 2}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, bad := strconv.Atoi(e.Name())
		if bad == nil && strings.HasPrefix(file(uint64(fd)), "anon_inode:[event") {
			list = append(list, uint32(fd))
		}
	}
	return list, err
}

// watcher answers what the kernel asks about the calls of one thread.
type watcher struct {
	dir      string
	number   int
	errno    unix.Errno
	listener int
	calls    []Call
}

// answer answers until the other end of a pipe is closed.
func (w *watcher) answer(end int) error {
	for {
		poll := []unix.PollFd{{Fd: int32(w.listener), Events: unix.POLLIN}, {Fd: int32(end)}}
		if _, err := unix.Poll(poll, -1); err != nil && err != unix.EINTR {
			return err
		}
		if poll[1].Revents&unix.POLLHUP != 0 {
			return nil
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var asked [80]byte // struct seccomp_notif
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), unix.SECCOMP_IOCTL_NOTIF_RECV,
			uintptr(unsafe.Pointer(&asked[0])))
		if errno == unix.ENOENT || errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return fmt.Errorf("what the kernel asks: %w", errno)
		}
		var reply [24]byte // struct seccomp_notif_resp
		copy(reply[:8], asked[:8])
		if failure := w.decide(asked[16:]); failure != 0 {
			binary.LittleEndian.PutUint32(reply[16:], uint32(-int32(failure)))
		} else {
			binary.LittleEndian.PutUint32(reply[20:], unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.listener), unix.SECCOMP_IOCTL_NOTIF_SEND,
			uintptr(unsafe.Pointer(&reply[0]))); errno != 0 && errno != unix.ENOENT {
			return fmt.Errorf("the answer to the kernel: %w", errno)
		}
	}
}

// decide notes a call and returns what it fails with; 0 for nothing. data is a struct seccomp_data.
func (w *watcher) decide(data []byte) unix.Errno {
	if w.number >= 0 && len(w.calls) > w.number { // the others are of no interest
		return 0
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[16+8*i:]) }
	c := Call{Name: watched[binary.LittleEndian.Uint32(data)]}
	switch {
	case named[c.Name]:
		if c.Path = text(word(1)); !filepath.IsAbs(c.Path) {
			c.Path = filepath.Join(file(word(0)), c.Path)
		}
	case c.Name == "statfs":
		c.Path = text(word(0))
	case c.Name == "mmap":
		c.Path = file(word(4))
	default:
		c.Path = file(word(0))
	}
	if c.Path != w.dir && !strings.HasPrefix(c.Path, w.dir+"/") {
		return 0
	}
	w.calls = append(w.calls, c)
	if len(w.calls)-1 == w.number {
		return w.errno
	}
	return 0
}

// file returns what a descriptor of this process stands for.
func file(fd uint64) string {
	if int32(fd) == unix.AT_FDCWD {
		dir, _ := os.Getwd()
		return dir
	}
	path, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int32(fd)))
	return path
}

// text reads a string of this process that ends in a zero.
func text(at uint64) string {
	b := make([]byte, 1024)
	for n := len(b); n > 0; n /= 2 { // it may lie near the end of what may be read
		local := []unix.Iovec{{Base: &b[0]}}
		local[0].SetLen(n)
		got, err := unix.ProcessVMReadv(os.Getpid(), local, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
		if err == nil {
			s, _, _ := strings.Cut(string(b[:got]), "\x00")
			return s
		}
	}
	return ""
}
