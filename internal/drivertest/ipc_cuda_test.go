//go:build cuda

package drivertest

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
)

// TestMemoryIsSharedBetweenProcesses lets this binary, started again, read and write memory of this process.
func TestMemoryIsSharedBetweenProcesses(t *testing.T) {
	const n = 64
	r := open(t)
	words, b := r.host(n)
	if text := os.Getenv("KHOP_TEST_IPC"); text != "" { // the other process: doubles each word
		var handle device.IPCHandle
		_, err := hex.Decode(handle[:], []byte(text))
		r.must(err)
		memory, err := r.device.ImportMemory(handle)
		r.must(err)
		a := memory.Address()
		out := r.alloc(8 * n)
		r.must(r.stream.Fill32(out, 0, 2*n))
		r.must(r.kernels.scaleAdd.Launch(r.stream, 1, 64, 0, deviceScale{out, a, 2, n}))
		r.must(r.stream.Copy(a, out, 8*n))
		r.must(r.stream.Synchronize())
		r.must(memory.Close())
		return
	}
	for i := range words {
		words[i] = uint64(i) << 20
	}
	a := r.alloc(8 * n)
	r.must(r.stream.CopyToDevice(a, b))
	r.must(r.stream.Synchronize())
	handle, err := r.device.ExportMemory(a)
	r.must(err)
	command := exec.Command(os.Args[0], "-test.run=^TestMemoryIsSharedBetweenProcesses$")
	command.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "KHOP_TEST_IPC="+hex.EncodeToString(handle[:]))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.must(r.stream.CopyToHost(b, a))
	r.must(r.stream.Synchronize())
	for i := range n {
		got, want := binary.LittleEndian.Uint64(b[8*i:]), uint64(i)<<21+uint64(i)
		expect.Ensure(t, got == want, "word %d is %d, not %d", i, got, want)
	}
}
