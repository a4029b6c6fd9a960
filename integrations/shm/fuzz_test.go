//go:build linux

package shm

import (
	"bytes"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/khop-gnn/khop/unified"
)

// FuzzDescriptor: no descriptor makes a consumer see memory outside the segments, and the arrays of a right one are
// what was put in.
func FuzzDescriptor(f *testing.F) {
	memory := [][]byte{make([]byte, 4096), make([]byte, 1000)}
	d := newDescriptor([]arrayForm{
		{"num_nodes", unified.Int64, 2, inTopology | inFull}, {"nodes/n", unified.Int32, 1, 3},
		{"node/n/feature", unified.Float32, 2, 2},
		{"empty", unified.Float64, 4, 0},
	})
	putPlace(d, 3, 4, 5, true)
	putArray(d, 0, 0, 128, []int64{2, 3})
	putArray(d, 1, 1, 256, []int64{100})
	putArray(d, 2, 0, 1024, []int64{10, 7})
	putArray(d, 3, 9, 99, []int64{1 << 40, 1 << 10, 0, 7})
	f.Add(d)
	for _, at := range []int{8, 12, 64, 72, 76, 77, 80, 84, 96, 104, 96 + 64, 128} {
		for _, v := range []byte{0xff, 0x80, 1} {
			e := bytes.Clone(d)
			e[at+7-at%8] = v
			f.Add(e)
			e = bytes.Clone(d)
			e[at] = v
			f.Add(e)
		}
	}
	of := func(segment uint32) []byte {
		if segment < uint32(len(memory)) {
			return memory[segment]
		}
		return nil
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, names := range [][]string{nil, {"a", "b", "c", "d"}} {
			arrays, err := parseDescriptor(b, of, names)
			if err != nil {
				continue
			}
			for _, a := range arrays {
				data := a.Tensor.Bytes()
				if len(data) == 0 {
					continue
				}
				inside := false
				for _, m := range memory {
					inside = inside || within(data, m)
				}
				if !inside || len(a.Name) == 0 {
					t.Fatalf("array %q of %v lies outside the ring", a.Name, a.Tensor)
				}
			}
		}
	})
}

// within reports whether a lies in m.
func within(a, m []byte) bool {
	for i := range m {
		if &m[i] == &a[0] {
			return i+len(a) <= len(m)
		}
	}
	return false
}

// FuzzServer: no messages of a consumer make the server fail, or keep it from serving the next one.
func FuzzServer(f *testing.F) {
	f.Add(begin{run: 1}.bytes(), nextNote{run: 1, done: 1, slots: []uint32{0, 1}}.append(nil),
		words{1, 0}.bytes(kindStop))
	f.Add(begin{run: 1, mode: beginState, json: []byte(`{"epoch":1e99}`)}.bytes(), words{askState, 1}.bytes(kindAsk),
		words{}.bytes(kindBye))
	f.Add(begin{run: 1<<32 - 1, epoch: 1<<32 - 1, next: 1<<64 - 1}.bytes(), begin{run: 1, mode: beginGoOn}.bytes(),
		good.bytes())
	f.Add(begin{run: 1}.bytes(), begin{run: 2, epoch: 5}.bytes(), begin{run: 3, mode: beginGoOn}.bytes())
	s := serve(f, plainGraph(f, 100), Options{Hold: 2})
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		k, err := dial(t.Context(), s.path)
		if err != nil {
			t.Fatal(err)
		}
		defer k.close()
		for _, m := range [][]byte{good.bytes(), a, b, c, words{}.bytes(kindBye)} {
			if len(m) > 0 && len(m) <= 2*maxMessage {
				_ = k.send(m, -1, time.Second) // the server may have had enough
			}
		}
		end, room := time.Now().Add(patience), make([]byte, maxMessage)
		for {
			_, fd, err := k.receive(t.Context(), end, room)
			closeDescriptor(fd)
			if os.IsTimeout(err) {
				t.Fatal("the server did not end the connection")
			}
			if err != nil {
				break
			}
		}
		next, err := Dial(t.Context(), s.path, ConsumerOptions{})
		if err != nil {
			t.Fatalf("the next consumer: %v", err)
		}
		defer next.Close()
		n := 0
		for _, err := range next.Epoch(t.Context(), 0) {
			if err != nil {
				t.Fatalf("the next consumer: %v", err)
			}
			n++
		}
		if n != 4 {
			t.Fatalf("the next consumer got %d batches", n)
		}
	})
}

// FuzzConsumer: no messages of a server make a consumer fail otherwise than by an error, or map more than it allows.
func FuzzConsumer(f *testing.F) {
	w := welcome{version: 1, world: 1, hold: 2, slots: 4, index: uint32(unified.Int64), batches: 3,
		json: []byte("{}")}.bytes()
	segment := segmentNote{size: 8192}.bytes()
	batch := make([]byte, 64)
	(&announcement{run: 1, size: 128, offset: 128}).put(batch)
	f.Add(w, begun{run: 1}.bytes(), segment, batch)
	f.Add(w, begun{run: 1}.bytes(), batch, segment)
	f.Add(w, endNote{run: 1}.bytes(), textNote{1, 2, []byte("text")}.bytes(kindError), words{9, 9}.bytes(kindBye))
	f.Add(textNote{0, 3, []byte("no")}.bytes(kindError), w, w, w)
	f.Fuzz(func(t *testing.T, a, b, c, d []byte) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := socketOf(t, pair[0]), socketOf(t, pair[1])
		seg, err := newSegment(2<<20, readWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer seg.close()
		for _, m := range [][]byte{a, b, c, d} {
			if len(m) == 0 || len(m) > maxMessage {
				continue
			}
			fd := -1
			if len(m) > 2 && kind(le.Uint16(m)) == kindSegment {
				fd = seg.fd
			}
			if err := theirs.send(m, fd, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Shutdown(theirs.fd, unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		consumer := newConsumer(ours, ConsumerOptions{Timeout: patience, MaxRing: 4 << 20})
		if err := consumer.greet(t.Context()); err == nil {
			for b, err := range consumer.Epoch(t.Context(), 0) {
				if err == nil {
					for _, a := range b.Arrays() {
						if len(a.Tensor.Bytes()) > 4<<20 {
							t.Fatal("an array larger than the ring")
						}
					}
				}
			}
		}
		if consumer.total > 4<<20 {
			t.Fatalf("%d bytes were mapped", consumer.total)
		}
		if err := consumer.Close(); err != nil {
			t.Fatal(err)
		}
		if err := theirs.close(); err != nil {
			t.Fatal(err)
		}
	})
}
