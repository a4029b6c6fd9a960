//go:build !race

package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call of the traced program.
type call struct {
	pid  int // of the thread
	nr   uint64
	args [6]uint64
	ret  int64 // when it has returned

	act  action
	note any // for the hooks
}

// action is what becomes of a call. The zero value lets it be.
type action struct {
	errno unix.Errno  // it fails with this
	short bool        // half of the bytes are read or written
	kill  unix.Signal // the program gets this signal first
}

// result is how a traced program ended.
type result struct {
	status         int // exit status; -1 where a signal ended it
	timedOut       bool
	stdout, stderr string
}

// hooks are called for each system call: enter before it, exit when it has returned. Both may be nil. With once they
// are not called again when enter has changed one.
type hooks struct {
	enter func(c *call) action
	exit  func(c *call)
	once  bool
}

// limit is the longest that a command of some milliseconds may take: what takes longer hangs. One that got little of
// the processor in that time has more of it: other programs may have been in its way.
const (
	limit      = 60 * time.Second
	longest    = 10 * limit
	mostOfIt   = 15 * time.Second // of a processor
	clockTicks = 100              // a second, in /proc
)

// hangs ends a program that takes too long, and returns a function that stops looking and says whether it did.
func hangs(pid int) (stop func() bool) {
	var late atomic.Bool
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for begin := time.Now(); ; {
			select {
			case <-done:
				return
			case <-time.After(limit):
			}
			if used(pid) > mostOfIt || !wantsProcessor(pid) || time.Since(begin) > longest {
				late.Store(true)
				_ = unix.Kill(pid, unix.SIGKILL)
				return
			}
		}
	}()
	return func() bool { close(done); <-ended; return late.Load() }
}

// used returns the time of a processor that a program took.
func used(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / clockTicks
}

// wantsProcessor reports whether some thread of a program is not asleep, in a hundred looks.
func wantsProcessor(pid int) bool {
	for range 100 {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			text, _ := os.ReadFile(path)
			if _, rest, _ := strings.Cut(string(text), ") "); rest != "" && !strings.HasPrefix(rest, "S") {
				return true
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// trace runs a program and calls the hooks for its system calls. started receives the process's id.
func trace(t *testing.T, dir string, h hooks, started func(pid int), argv ...string) result {
	t.Helper()
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	out, errs := tempFile(t), tempFile(t)
	defer out.Close()
	defer errs.Close()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Dir: dir, Env: os.Environ(),
		Files: []uintptr{null.Fd(), out.Fd(), errs.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		t.Skip("this machine does not let a test trace a program: ", err)
	}
	must(t, err)
	late := hangs(pid)
	r := result{status: (&tracer{pid: pid, h: h, started: started, threads: map[int]*call{}}).follow(t)}
	r.timedOut = late()
	r.stdout, r.stderr = text(t, out), text(t, errs)
	return r
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp("", "khop-faults-")
	must(t, err)
	must(t, os.Remove(f.Name()))
	return f
}

func text(t *testing.T, f *os.File) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, _ := f.ReadAt(b, 0)
	return string(b[:n])
}

// tracer follows the threads of one program.
type tracer struct {
	pid     int
	h       hooks
	started func(pid int)
	threads map[int]*call // the call in which a thread is, nil outside of any
	hit     bool          // a call was changed, and has ended
}

// follow returns the program's exit status.
func (tr *tracer) follow(t *testing.T) int {
	begun := false
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		must(t, err)
		if ws.Exited() || ws.Signaled() {
			delete(tr.threads, tid)
			if tid == tr.pid {
				return status(ws)
			}
			continue
		}
		signal := 0
		_, known := tr.threads[tid]
		switch s := ws.StopSignal(); {
		case s == unix.SIGTRAP|0x80:
			tr.stop(tid)
		case !known: // the first stop of a thread
			tr.threads[tid] = nil
		case s != unix.SIGTRAP: // those are events: a thread began, a program
			signal = int(s)
		}
		if !begun {
			begun = true
			_ = unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL)
			if tr.started != nil {
				tr.started(tr.pid)
			}
		}
		if tr.hit && tr.h.once && tr.threads[tid] == nil {
			_ = unix.PtraceCont(tid, signal)
			continue
		}
		_ = unix.PtraceSyscall(tid, signal) // it fails where the thread has just been killed
	}
}

func status(ws unix.WaitStatus) int {
	if ws.Exited() {
		return ws.ExitStatus()
	}
	return -1
}

// stop handles the begin or the end of a call.
func (tr *tracer) stop(tid int) {
	var info [88]byte
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), uintptr(len(info)),
		uintptr(unsafe.Pointer(&info[0])), 0, 0)
	if errno != 0 {
		return
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(info[24+8*i:]) }
	if info[0] == unix.PTRACE_SYSCALL_INFO_ENTRY {
		c := &call{pid: tid, nr: word(0)}
		for i := range c.args {
			c.args[i] = word(i + 1)
		}
		if tr.h.enter != nil {
			c.act = tr.h.enter(c)
		}
		tr.begin(c)
		tr.threads[tid] = c
		return
	}
	c := tr.threads[tid]
	tr.threads[tid] = nil
	if c == nil {
		return
	}
	c.ret = int64(word(0))
	tr.hit = tr.hit || c.act != action{}
	if c.act.errno != 0 {
		c.ret = -int64(c.act.errno)
		var regs unix.PtraceRegs
		if unix.PtraceGetRegs(tid, &regs) == nil {
			regs.Rax = uint64(c.ret)
			_ = unix.PtraceSetRegs(tid, &regs)
		}
	}
	if tr.h.exit != nil {
		tr.h.exit(c)
	}
}

// begin changes a call that is about to begin.
func (tr *tracer) begin(c *call) {
	if c.act == (action{}) {
		return
	}
	if c.act.kill != 0 {
		_ = unix.Kill(tr.pid, c.act.kill)
		return
	}
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(c.pid, &regs) != nil {
		return
	}
	if c.act.errno != 0 {
		regs.Orig_rax = ^uint64(0) // no call at all
	}
	if c.act.short {
		regs.Rdx = (regs.Rdx + 1) / 2
	}
	_ = unix.PtraceSetRegs(c.pid, &regs)
}

// memory reads from the traced program.
func (c *call) memory(at uint64, n int) []byte {
	b := make([]byte, n)
	local := []unix.Iovec{{Base: &b[0], Len: uint64(n)}}
	got, err := unix.ProcessVMReadv(c.pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err != nil {
		return nil
	}
	return b[:got]
}

// text reads a string of the traced program that ends in a zero. It does not cross the end of a page at first.
func (c *call) text(at uint64) string {
	const page = 4096
	b := c.memory(at, int(page-at%page))
	if i := strings.IndexByte(string(b), 0); i >= 0 {
		return string(b[:i])
	}
	s := string(append(b, c.memory(at+uint64(len(b)), page)...))
	s, _, _ = strings.Cut(s, "\x00")
	return s
}

// file returns what a descriptor of the traced program stands for.
func (c *call) file(fd uint64) string {
	link := fmt.Sprintf("/proc/%d/fd/%d", c.pid, int32(fd))
	if int32(fd) == unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/cwd", c.pid)
	}
	path, _ := os.Readlink(link)
	return path
}

// path returns the path that a descriptor of a directory and a name in it stand for.
func (c *call) path(dir, name uint64) string {
	s := c.text(name)
	if !filepath.IsAbs(s) {
		s = filepath.Join(c.file(dir), s)
	}
	return filepath.Clean(s)
}

// object returns the file that a call is about, as far as that is of interest.
func (c *call) object() string {
	switch c.nr {
	case unix.SYS_OPENAT, unix.SYS_NEWFSTATAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_READLINKAT,
		unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_STATX, unix.SYS_FCHMODAT:
		return c.path(c.args[0], c.args[1])
	case unix.SYS_STATFS:
		return c.text(c.args[0])
	case unix.SYS_MMAP:
		if int32(c.args[4]) < 0 {
			return ""
		}
		return c.file(c.args[4])
	case unix.SYS_SOCKET, unix.SYS_MEMFD_CREATE, unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2, unix.SYS_PIPE2,
		unix.SYS_GETCWD:
		return ""
	}
	return c.file(c.args[0])
}
