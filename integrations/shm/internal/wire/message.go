package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/integrations/shm"
	"github.com/khop-gnn/khop/unified"
)

// The limits of the protocol. Both sides check them.
const (
	MaxMessage    = 1 << 16
	MaxSegments   = 1 << 12
	maxSegment    = 1 << 47
	MaxSlots      = 1 << 16
	MaxReturned   = 1 << 10 // slots a NEXT
	MaxText       = 1 << 12
	MaxArrays     = 1 << 20
	maxDescriptor = 1 << 28
	MaxName       = 1 << 12
	Alignment     = 128
)

// Magic begins HELLO and WELCOME.
var Magic = [8]byte([]byte("khopfeed"))

// The codes of ERROR (docs/feed.md, "Errors").
const (
	CodeMessage    shm.Code = iota + 1 // a rule of the protocol was broken
	CodeVersion                        // no common version
	CodeUser                           // another user
	CodeRank                           // no such rank
	CodeTaken                          // another consumer has the rank
	CodeFull                           // too many consumers
	CodeIndexDType                     // the ring does not have it
	CodeState                          // a state of another dataset or other options
	CodeEpochs                         // an epoch beyond the last
	CodeLoad                           // making a batch failed
	CodeMemory                         // no room for the ring
	CodeEnding                         // the server is shutting down
	CodeReaders                        // readers of a broadcast ring asked for different places
	CodeStalled                        // the readers of a broadcast ring waited too long for this one
)

// AnyRank in HELLO asks for the lowest rank that is free.
const AnyRank = 1<<32 - 1

// Kind is a message's kind.
type Kind uint16

// The kinds.
const (
	KindHello Kind = iota + 1
	KindWelcome
	KindSegment
	KindBegin
	KindBegun
	KindBatch
	KindNext
	KindEnd
	KindStop
	KindError
	KindAsk
	KindTell
	KindBye
	KindSample
)

var kindNames = [...]string{"0", "HELLO", "WELCOME", "SEGMENT", "BEGIN", "BEGUN", "BATCH", "NEXT", "END", "STOP",
	"ERROR", "ASK", "TELL", "BYE", "SAMPLE"}

// String returns the kind's name in docs/feed.md.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("message of kind %d", uint16(k))
}

// ErrMessage is wrapped by every error that blames the other end.
var ErrMessage = errors.New("bad message")

var le = binary.LittleEndian

// Head begins every message. Append writes it.
type Head struct {
	Kind   Kind
	Flags  uint16
	Length uint32
}

func (Head) tail() uint64 { return 0 }
func (Head) sound() bool  { return true }

// KindOf checks a packet's head and returns its kind.
func KindOf(b []byte) (Kind, error) {
	if len(b) < 8 || len(b) > MaxMessage || le.Uint32(b[4:]) != uint32(len(b)) {
		return 0, fmt.Errorf("%w: %d bytes with a wrong length", ErrMessage, len(b))
	}
	return Kind(le.Uint16(b)), nil
}

// message is the fixed part of a message. The structs have the layout of docs/feed.md, byte for byte.
type message interface {
	Hello | Welcome | Segment | Begin | Begun | Batch | Next | End | Pair | Text | Sample
	tail() uint64 // bytes that follow the fixed part
	sound() bool  // all numbers are in their ranges
}

// bytesOf returns the memory of a struct without pointers or gaps.
func bytesOf[T any](v *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }

// Append appends a message to b: its head, with the flags of m, its fixed part and its tail.
func Append[M message](b []byte, k Kind, m M, tail []byte) []byte {
	fixed := bytesOf(&m)
	le.PutUint16(fixed, uint16(k))
	le.PutUint32(fixed[4:], uint32(len(fixed)+len(tail)))
	return append(append(b, fixed...), tail...)
}

// Parse returns a message's fixed part, and its tail, which lies in b.
func Parse[M message](b []byte) (m M, tail []byte, err error) {
	n := copy(bytesOf(&m), b)
	if n < len(bytesOf(&m)) || m.tail() != uint64(len(b)-n) || !m.sound() {
		return m, nil, fmt.Errorf("%w: a %v of %d bytes: %+v", ErrMessage, Kind(le.Uint16(bytesOf(&m))), len(b), m)
	}
	return m, b[n:], nil
}

func isIndex(d uint32) bool { return d == uint32(unified.Int32) || d == uint32(unified.Int64) }

// TakesDevice in Hello.Takes: the consumer takes segments of device memory.
const TakesDevice = 1 << 0

// Hello is the first message of a consumer.
type Hello struct {
	Head
	Magic                             [8]byte
	Oldest, Newest                    uint16
	Rank, Index, Hold, Process, Takes uint32
	_                                 [6]uint32
}

func (m Hello) sound() bool { return m.Magic == Magic && (m.Index == 0 || isIndex(m.Index)) }

// Welcome.Is: what a ring is.
const (
	IsBroadcast = 1 << 0
	IsDurable   = 1 << 1
	IsOnDevice  = 1 << 2
)

// Welcome answers Hello. JSON follows.
type Welcome struct {
	Head
	Magic                                         [8]byte
	Version, _                                    uint16
	Rank, WorldSize, Hold, Slots, Index, Is, JSON uint32
	Batches, _                                    uint64
}

func (m Welcome) tail() uint64 { return uint64(m.JSON) }
func (m Welcome) sound() bool {
	return m.Magic == Magic && m.Rank < m.WorldSize && m.Hold > 0 && m.Hold <= m.Slots && m.Slots <= MaxSlots &&
		isIndex(m.Index)
}

// Segment.Is: how to take a segment. Of SegmentWithin the handle begins with the address in this process, which the
// other end of a socket never has.
const (
	SegmentReadOnly = 1 << 0 // it can be mapped for reading only
	SegmentWithin   = 1 << 1
)

// Segment.Memory: where a segment lies.
const (
	OnHost   = 0
	OnDevice = 1
)

// Segment hands over a piece of the ring.
type Segment struct {
	Head
	Index, Memory uint32
	Size          uint64
	Is, Device    uint32
	Handle        device.IPCHandle
}

func (m Segment) sound() bool {
	return m.Index < MaxSegments && m.Memory <= OnDevice && m.Size > 0 && m.Size < maxSegment
}

// Begin.Mode: where a run begins.
const (
	BeginAt    = 0
	BeginGoOn  = 1
	BeginState = 2
)

// Begin asks for a run. A state in JSON follows in mode BeginState.
type Begin struct {
	Head
	Run, Mode   uint32
	Epoch, Next uint64
	JSON, _     uint32
}

func (m Begin) tail() uint64 { return uint64(m.JSON) }
func (m Begin) sound() bool {
	return m.Run > 0 && m.Mode <= BeginState && m.Epoch < 1<<32 && (m.Mode == BeginState) == (m.JSON > 0)
}

// Begun answers Begin.
type Begun struct {
	Head
	Run, _                  uint32
	Epoch, Next, Batches, _ uint64
}

// Padded in Batch.Flags and in a descriptor: the rank repeats a batch of another.
const Padded = 1 << 0

// Batch announces a batch: Size and Offset are of its descriptor.
type Batch struct {
	Head
	Run, Slot               uint32
	Sequence, Epoch, Number uint64
	Segment, Size           uint32
	Offset, Next            uint64
}

func (m Batch) sound() bool {
	return int(m.Size) >= descriptorHead && m.Size <= maxDescriptor && m.Offset%Alignment == 0
}

// Next acknowledges batches and returns slots, which follow.
type Next struct {
	Head
	Run, Count uint32
	Done       uint64
}

func (m Next) tail() uint64 { return 4 * uint64(m.Count) }
func (m Next) sound() bool  { return m.Count <= MaxReturned }

// AppendNext appends a NEXT that returns slots.
func AppendNext(b []byte, run uint32, done uint64, slots []uint32) []byte {
	tail := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(slots))), 4*len(slots))
	return Append(b, KindNext, Next{Run: run, Count: uint32(len(slots)), Done: done}, tail)
}

// AppendSlots appends the slots that follow a Next.
func AppendSlots(slots []uint32, tail []byte) []uint32 {
	for ; len(tail) > 0; tail = tail[4:] {
		slots = append(slots, le.Uint32(tail))
	}
	return slots
}

// End.Reason: why a run is over.
const (
	EndComplete = 0
	EndStopped  = 1
)

// End ends a run.
type End struct {
	Head
	Run, Reason    uint32
	Sent, Epoch, _ uint64
}

func (m End) sound() bool { return m.Reason <= EndStopped }

// What ASK asks for.
const (
	AskStatistics = 1
	AskState      = 2
)

// Reasons of BYE.
const (
	ByeDone        = 0
	ByeInterrupted = 1
	ByeAllEpochs   = 2
)

// Pair is a message of two numbers: STOP (run, 0), ASK (what, id), BYE (reason, 0).
type Pair struct {
	Head
	First, Second uint32
}

// Text is ERROR (run, code) and TELL (what, id). A text follows, or JSON.
type Text struct {
	Head
	First, Second, Size, _ uint32
}

func (m Text) tail() uint64 { return uint64(m.Size) }

// AppendText appends an ERROR or TELL.
func AppendText(b []byte, k Kind, first, second uint32, text []byte) []byte {
	return Append(b, k, Text{First: first, Second: second, Size: uint32(len(text))}, text)
}
