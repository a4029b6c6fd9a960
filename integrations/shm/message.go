package shm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/unified"
)

// Version is the version of the protocol (docs/feed.md).
const Version = 1

// Limits of the protocol, checked by both sides.
const (
	maxMessage    = 1 << 16
	maxSegments   = 1 << 12
	maxSegment    = 1 << 47
	maxSlots      = 1 << 16
	maxReturned   = 1 << 10 // slots a NEXT
	maxText       = 1 << 12
	maxArrays     = 1 << 20
	maxDescriptor = 1 << 28
	maxName       = 1 << 12
	alignment     = 128
)

const magic = "khopfeed"

// anyRank in HELLO asks for the lowest rank that is free.
const anyRank = 1<<32 - 1

// kind is a message's kind.
type kind uint16

const (
	kindHello kind = iota + 1
	kindWelcome
	kindSegment
	kindBegin
	kindBegun
	kindBatch
	kindNext
	kindEnd
	kindStop
	kindError
	kindAsk
	kindTell
	kindBye
)

var kindNames = [...]string{"0", "HELLO", "WELCOME", "SEGMENT", "BEGIN", "BEGUN", "BATCH", "NEXT", "END", "STOP",
	"ERROR", "ASK", "TELL", "BYE"}

func (k kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("message of kind %d", uint16(k))
}

// errMessage is wrapped by every complaint about what a peer has sent.
var errMessage = errors.New("bad message")

var le = binary.LittleEndian

// newMessage returns a message of n bytes with its head written.
func newMessage(k kind, flags uint16, n int) []byte {
	b := make([]byte, n)
	le.PutUint16(b, uint16(k))
	le.PutUint16(b[2:], flags)
	le.PutUint32(b[4:], uint32(n))
	return b
}

// kindOf checks a packet's head.
func kindOf(b []byte) (kind, error) {
	if len(b) < 8 || len(b) > maxMessage || le.Uint32(b[4:]) != uint32(len(b)) {
		return 0, fmt.Errorf("%w: %d bytes with a wrong length", errMessage, len(b))
	}
	return kind(le.Uint16(b)), nil
}

// sized checks that a message has its fixed part of n bytes and after it as many as the count at byte `at` says.
func sized(b []byte, n, at int) error {
	if len(b) < n || at > 0 && uint64(le.Uint32(b[at:])) != uint64(len(b)-n) || at == 0 && len(b) != n {
		return fmt.Errorf("%w: a %v of %d bytes", errMessage, kind(le.Uint16(b)), len(b))
	}
	return nil
}

// takesDevice in HELLO: the consumer takes segments of device memory.
const takesDevice = 1 << 0

type hello struct {
	oldest, newest                 uint16
	rank, index, hold, self, takes uint32
}

func (m hello) bytes() []byte {
	b := newMessage(kindHello, 0, 64)
	copy(b[8:], magic)
	le.PutUint16(b[16:], m.oldest)
	le.PutUint16(b[18:], m.newest)
	le.PutUint32(b[20:], m.rank)
	le.PutUint32(b[24:], m.index)
	le.PutUint32(b[28:], m.hold)
	le.PutUint32(b[32:], m.self)
	le.PutUint32(b[36:], m.takes)
	return b
}

func parseHello(b []byte) (m hello, err error) {
	if err := sized(b, 64, 0); err != nil {
		return m, err
	}
	if string(b[8:16]) != magic {
		return m, fmt.Errorf("%w: no HELLO of this protocol", errMessage)
	}
	m.oldest, m.newest = le.Uint16(b[16:]), le.Uint16(b[18:])
	m.rank, m.index, m.hold, m.self, m.takes = le.Uint32(b[20:]), le.Uint32(b[24:]), le.Uint32(b[28:]),
		le.Uint32(b[32:]), le.Uint32(b[36:])
	if d := unified.DType(m.index); m.index > 255 || d != unified.Invalid && d != unified.Int32 && d != unified.Int64 {
		return m, fmt.Errorf("%w: index dtype %d", errMessage, m.index)
	}
	return m, nil
}

// Flags of WELCOME.
const (
	welcomeBroadcast = 1 << 0
	welcomeDurable   = 1 << 1
	welcomeDevice    = 1 << 2
)

type welcome struct {
	version                               uint16
	rank, world, hold, slots, index, flag uint32
	batches                               uint64
	json                                  []byte
}

func (m welcome) bytes() []byte {
	b := newMessage(kindWelcome, 0, 64+len(m.json))
	copy(b[8:], magic)
	le.PutUint16(b[16:], m.version)
	for i, v := range []uint32{m.rank, m.world, m.hold, m.slots, m.index, m.flag, uint32(len(m.json))} {
		le.PutUint32(b[20+4*i:], v)
	}
	le.PutUint64(b[48:], m.batches)
	copy(b[64:], m.json)
	return b
}

func parseWelcome(b []byte) (m welcome, err error) {
	if err := sized(b, 64, 44); err != nil {
		return m, err
	}
	m.version = le.Uint16(b[16:])
	for i, p := range []*uint32{&m.rank, &m.world, &m.hold, &m.slots, &m.index, &m.flag} {
		*p = le.Uint32(b[20+4*i:])
	}
	m.batches, m.json = le.Uint64(b[48:]), b[64:]
	index := unified.DType(m.index)
	if string(b[8:16]) != magic || m.rank >= m.world || m.hold == 0 || m.hold > m.slots || m.slots > maxSlots ||
		m.index > 255 || index != unified.Int32 && index != unified.Int64 {
		return m, fmt.Errorf("%w: WELCOME %+v", errMessage, m)
	}
	return m, nil
}

// segmentReadOnly in SEGMENT: the segment can be mapped for reading only.
const segmentReadOnly = 1 << 0

// Memory of a SEGMENT.
const (
	hostSegment   = 0
	deviceSegment = 1
)

type segmentNote struct {
	index, memory uint32
	size          uint64
	flag, device  uint32
	handle        device.IPCHandle
}

func (m segmentNote) bytes() []byte {
	b := newMessage(kindSegment, 0, 96)
	le.PutUint32(b[8:], m.index)
	le.PutUint32(b[12:], m.memory)
	le.PutUint64(b[16:], m.size)
	le.PutUint32(b[24:], m.flag)
	le.PutUint32(b[28:], m.device)
	copy(b[32:], m.handle[:])
	return b
}

func parseSegment(b []byte) (m segmentNote, err error) {
	if err := sized(b, 96, 0); err != nil {
		return m, err
	}
	m = segmentNote{le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint32(b[24:]), le.Uint32(b[28:]),
		device.IPCHandle(b[32:96])}
	if m.index >= maxSegments || m.memory > deviceSegment || m.size == 0 || m.size >= maxSegment {
		return m, fmt.Errorf("%w: SEGMENT %+v", errMessage, m)
	}
	return m, nil
}

// Modes of BEGIN.
const (
	beginAt    = 0
	beginGoOn  = 1
	beginState = 2
)

type begin struct {
	run, mode   uint32
	epoch, next uint64
	json        []byte
}

func (m begin) bytes() []byte {
	b := newMessage(kindBegin, 0, 40+len(m.json))
	le.PutUint32(b[8:], m.run)
	le.PutUint32(b[12:], m.mode)
	le.PutUint64(b[16:], m.epoch)
	le.PutUint64(b[24:], m.next)
	le.PutUint32(b[32:], uint32(len(m.json)))
	copy(b[40:], m.json)
	return b
}

func parseBegin(b []byte) (m begin, err error) {
	if err := sized(b, 40, 32); err != nil {
		return m, err
	}
	m = begin{le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint64(b[24:]), b[40:]}
	if m.run == 0 || m.mode > beginState || m.epoch > 1<<32-1 || (m.mode == beginState) != (len(m.json) > 0) {
		return m, fmt.Errorf("%w: BEGIN of run %d, mode %d, epoch %d", errMessage, m.run, m.mode, m.epoch)
	}
	return m, nil
}

type begun struct {
	run                  uint32
	epoch, next, batches uint64
}

func (m begun) bytes() []byte {
	b := newMessage(kindBegun, 0, 48)
	le.PutUint32(b[8:], m.run)
	le.PutUint64(b[16:], m.epoch)
	le.PutUint64(b[24:], m.next)
	le.PutUint64(b[32:], m.batches)
	return b
}

func parseBegun(b []byte) (m begun, err error) {
	if err := sized(b, 48, 0); err != nil {
		return m, err
	}
	return begun{le.Uint32(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:])}, nil
}

// batchPadded in BATCH and in a descriptor: the rank repeats a batch of another.
const batchPadded = 1 << 0

type announcement struct {
	flags         uint16
	run, slot     uint32
	sequence      uint64
	epoch, number uint64
	segment, size uint32
	offset, next  uint64
}

// put writes the message to b, of 64 bytes.
func (m *announcement) put(b []byte) {
	le.PutUint16(b, uint16(kindBatch))
	le.PutUint16(b[2:], m.flags)
	le.PutUint32(b[4:], 64)
	le.PutUint32(b[8:], m.run)
	le.PutUint32(b[12:], m.slot)
	le.PutUint64(b[16:], m.sequence)
	le.PutUint64(b[24:], m.epoch)
	le.PutUint64(b[32:], m.number)
	le.PutUint32(b[40:], m.segment)
	le.PutUint32(b[44:], m.size)
	le.PutUint64(b[48:], m.offset)
	le.PutUint64(b[56:], m.next)
}

func parseBatch(b []byte) (m announcement, err error) {
	if err := sized(b, 64, 0); err != nil {
		return m, err
	}
	m = announcement{
		flags: le.Uint16(b[2:]), run: le.Uint32(b[8:]), slot: le.Uint32(b[12:]), sequence: le.Uint64(b[16:]),
		epoch: le.Uint64(b[24:]), number: le.Uint64(b[32:]), segment: le.Uint32(b[40:]), size: le.Uint32(b[44:]),
		offset: le.Uint64(b[48:]), next: le.Uint64(b[56:]),
	}
	if m.size < descriptorHead || m.size > maxDescriptor || m.offset%alignment != 0 {
		return m, fmt.Errorf("%w: BATCH %+v", errMessage, m)
	}
	return m, nil
}

// nextNote is NEXT: acknowledgement and credit.
type nextNote struct {
	run   uint32
	done  uint64
	slots []uint32
}

// append appends the message to b.
func (m nextNote) append(b []byte) []byte {
	b = le.AppendUint16(b, uint16(kindNext))
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, uint32(24+4*len(m.slots)))
	b = le.AppendUint32(b, m.run)
	b = le.AppendUint32(b, uint32(len(m.slots)))
	b = le.AppendUint64(b, m.done)
	for _, s := range m.slots {
		b = le.AppendUint32(b, s)
	}
	return b
}

// parseNext appends the slots to room.
func parseNext(b []byte, room []uint32) (m nextNote, err error) {
	if len(b) < 24 {
		return m, fmt.Errorf("%w: a NEXT of %d bytes", errMessage, len(b))
	}
	m.run, m.done, m.slots = le.Uint32(b[8:]), le.Uint64(b[16:]), room
	count := le.Uint32(b[12:])
	if count > maxReturned || len(b) != 24+4*int(count) {
		return m, fmt.Errorf("%w: a NEXT of %d bytes for %d slots", errMessage, len(b), count)
	}
	for i := range int(count) {
		m.slots = append(m.slots, le.Uint32(b[24+4*i:]))
	}
	return m, nil
}

// Reasons of END.
const (
	endComplete = 0
	endStopped  = 1
)

type endNote struct {
	run, reason uint32
	sent, epoch uint64
}

func (m endNote) bytes() []byte {
	b := newMessage(kindEnd, 0, 40)
	le.PutUint32(b[8:], m.run)
	le.PutUint32(b[12:], m.reason)
	le.PutUint64(b[16:], m.sent)
	le.PutUint64(b[24:], m.epoch)
	return b
}

func parseEnd(b []byte) (m endNote, err error) {
	if err := sized(b, 40, 0); err != nil {
		return m, err
	}
	return endNote{le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint64(b[24:])}, nil
}

// What ASK asks for.
const (
	askStatistics = 1
	askState      = 2
)

// words is a message of two numbers: STOP (run, 0), ASK (what, id), BYE (reason, 0).
type words struct{ first, second uint32 }

func (m words) bytes(k kind) []byte {
	b := newMessage(k, 0, 16)
	le.PutUint32(b[8:], m.first)
	le.PutUint32(b[12:], m.second)
	return b
}

func parseWords(b []byte) (m words, err error) {
	if err := sized(b, 16, 0); err != nil {
		return m, err
	}
	return words{le.Uint32(b[8:]), le.Uint32(b[12:])}, nil
}

// textNote is ERROR (run, code, text) and TELL (what, id, JSON).
type textNote struct {
	first, second uint32
	text          []byte
}

func (m textNote) bytes(k kind) []byte {
	b := newMessage(k, 0, 24+len(m.text))
	le.PutUint32(b[8:], m.first)
	le.PutUint32(b[12:], m.second)
	le.PutUint32(b[16:], uint32(len(m.text)))
	copy(b[24:], m.text)
	return b
}

func parseText(b []byte) (m textNote, err error) {
	if err := sized(b, 24, 16); err != nil {
		return m, err
	}
	return textNote{le.Uint32(b[8:]), le.Uint32(b[12:]), b[24:]}, nil
}

// Reasons of BYE.
const (
	byeDone        = 0
	byeInterrupted = 1
	byeAllEpochs   = 2
)
