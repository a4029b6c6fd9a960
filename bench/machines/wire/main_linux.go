// Command wire is a network between hosts that are network namespaces of one machine: a device "wire" in each, and
// packets that arrive when a line of a given rate and delay would bring them. Kernels without netem have nothing else.
//
//	wire -rate 1000 -delay 1ms a=10.9.0.1 b=10.9.0.2
//
// makes namespaces a and b, prints "ready", and ends at the end of its input, with the bytes that each host has sent.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mtu is that of jumbo frames.
const mtu = 9000

// host is a namespace: its address, and the other end of its device.
type host struct {
	name, address string
	device        *os.File
	line          chan packet // what is on its way from it
	sent          atomic.Int64
}

// packet is on a line until it is due.
type packet struct {
	data []byte
	due  time.Time
}

func main() {
	rate := flag.Float64("rate", 1000, "megabits a second, each way")
	delay := flag.Duration("delay", time.Millisecond, "there and back")
	flag.Parse()
	if err := run(*rate*1e6, *delay, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "wire:", err)
		os.Exit(1)
	}
}

func run(rate float64, delay time.Duration, names []string) error {
	if len(names) != 2 {
		return fmt.Errorf("%d hosts, must be 2", len(names))
	}
	var hosts [2]*host
	for i, name := range names {
		h := &host{line: make(chan packet, 4096)}
		h.name, h.address, _ = strings.Cut(name, "=")
		defer func() { _ = exec.Command("ip", "netns", "del", h.name).Run() }()
		if err := h.open(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		hosts[i] = h
	}
	failed := make(chan error, 4)
	for i, h := range hosts {
		go func() { failed <- h.send(rate, delay/2) }()
		go func() { failed <- h.deliver(hosts[1-i].device) }()
	}
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		failed <- err
	}()
	fmt.Println("ready")
	if err := <-failed; err != nil {
		return err
	}
	sent := map[string]int64{}
	for _, h := range hosts {
		sent[h.name] = h.sent.Load()
	}
	return json.NewEncoder(os.Stdout).Encode(sent)
}

// open makes the namespace and its device. The thread that has been there ends.
func (h *host) open() error {
	for _, line := range []string{"netns add " + h.name, "-n " + h.name + " link set lo up",
		"-n " + h.name + " tuntap add dev wire mode tun",
		fmt.Sprintf("-n %s link set wire up mtu %d", h.name, mtu),
		fmt.Sprintf("-n %s addr add %s/24 dev wire", h.name, h.address)} {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	opened := make(chan error)
	go func() {
		runtime.LockOSThread()
		opened <- h.attach()
	}()
	return <-opened
}

func (h *host) attach() error {
	ns, err := os.Open("/run/netns/" + h.name)
	if err != nil {
		return err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("wire")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TUNSETIFF,
		uintptr(unsafe.Pointer(request))); errno != 0 {
		return errno
	}
	h.device = os.NewFile(uintptr(fd), "wire of "+h.name)
	return nil
}

// send puts what the host sends on the line: a packet leaves when those before it have left.
func (h *host) send(rate float64, delay time.Duration) error {
	free := time.Now()
	for {
		data := make([]byte, mtu)
		n, err := h.device.Read(data)
		if err != nil {
			return err
		}
		h.sent.Add(int64(n))
		if now := time.Now(); free.Before(now) {
			free = now
		}
		free = free.Add(time.Duration(float64(n) * 8e9 / rate))
		h.line <- packet{data[:n], free.Add(delay)}
	}
}

// deliver hands packets to the other host when they are due.
func (h *host) deliver(to *os.File) error {
	for p := range h.line {
		time.Sleep(time.Until(p.due)) // this is the line, not a wait for somebody
		if _, err := to.Write(p.data); err != nil {
			return err
		}
	}
	return nil
}
