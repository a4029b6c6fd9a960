package server

import (
	"encoding/binary"
	"sync/atomic"
)

// PostBytes is the room of one direction of a Segment: for the announcements of all batches that a consumer may hold,
// and more.
const PostBytes = 1 << 19

// post is one direction of a feed within a process: messages in shared memory, in order. Each follows a frame of 8
// bytes, which has the length of the message and its first two bytes, such as its kind. Frames begin at multiples of 8.
// Writer and reader synchronise by two counts, so neither calls the other, and they may be in different languages
// (cmd/libkhop/feed.c). One goroutine may put, and one take, at a time. The zero value is empty.
type post struct {
	written atomic.Uint64 // bytes, by who puts
	_       [56]byte
	read    atomic.Uint64 // bytes, by who takes
	_       [56]byte
	sleeps  atomic.Uint32 // who takes waits until the bell is rung
	ended   atomic.Uint32 // nothing more will come
	_       [56]byte
	data    [PostBytes]byte
}

const (
	frame = 8         // bytes
	wrap  = 1<<32 - 1 // in place of a length: go on at the beginning
)

// put adds a message; false where there is no room for it.
func (p *post) put(m []byte) bool {
	written := p.written.Load()
	at, need := written%PostBytes, uint64(frame+(len(m)+7)&^7)
	skip := uint64(0)
	if at+need > PostBytes {
		skip = PostBytes - at
	}
	if written+skip+need-p.read.Load() > PostBytes {
		return false
	}
	if skip > 0 {
		binary.LittleEndian.PutUint32(p.data[at:], wrap)
		at = 0
	}
	kind := uint64(0)
	if len(m) > 1 {
		kind = uint64(binary.LittleEndian.Uint16(m))
	}
	binary.LittleEndian.PutUint64(p.data[at:], kind<<32|uint64(len(m)))
	copy(p.data[at+frame:], m)
	p.written.Store(written + skip + need)
	return true
}

// take copies the next message to room, of wire.MaxMessage bytes, and returns its length; 0 where there is none.
func (p *post) take(room []byte) int {
	read := p.read.Load()
	if p.written.Load() == read {
		return 0
	}
	at := read % PostBytes
	n := binary.LittleEndian.Uint32(p.data[at:])
	if n == wrap {
		read += PostBytes - at
		at = 0
		n = binary.LittleEndian.Uint32(p.data[at:])
	}
	copy(room[:n], p.data[at+frame:])
	p.read.Store(read + frame + uint64(n+7)&^7)
	return int(n)
}

// fallAsleep says that who takes will wait for the bell; false where there is something to take.
func (p *post) fallAsleep() bool {
	p.sleeps.Store(1)
	return p.written.Load() == p.read.Load() && p.ended.Load() == 0
}

// mustRing reports, once, whether who takes waits for the bell.
func (p *post) mustRing() bool { return p.sleeps.Load() != 0 && p.sleeps.Swap(0) != 0 }

// Mail is both directions of a feed within a process.
type Mail struct {
	Down, Up post // to the consumer, and to the server
}
