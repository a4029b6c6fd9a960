package wire

import (
	"encoding/hex"
	"errors"
	"testing"

	"github.com/khop-gnn/khop/device"
	"github.com/khop-gnn/khop/internal/expect"
	"github.com/khop-gnn/khop/unified"
)

// The bytes of version 1: other programs rely on them.
func TestMessagesHaveTheBytesOfVersionOne(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
	}{
		{Append(nil, KindHello, Hello{Magic: Magic, Oldest: 1, Newest: 2, Rank: 3, Index: 7, Hold: 5, Process: 6,
			Takes: 1}, nil),
			"01000000400000006b686f70666565640100020003000000070000000500000006000000010000000000000000000000" +
				"00000000000000000000000000000000"},
		{Append(nil, KindWelcome, Welcome{Magic: Magic, Version: 1, Rank: 2, WorldSize: 3, Hold: 4, Slots: 5, Index: 7,
			Is: 6, JSON: 2, Batches: 8}, []byte("{}")),
			"02000000420000006b686f70666565640100000002000000030000000400000005000000070000000600000002000000" +
				"080000000000000000000000000000007b7d"},
		{Append(nil, KindSegment, Segment{Index: 1, Memory: 1, Size: 2, Is: 1, Device: 4,
			Handle: device.IPCHandle{5, 63: 6}}, nil),
			"030000006000000001000000010000000200000000000000010000000400000005000000000000000000000000000000" +
				"000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000006"},
		{Append(nil, KindBegin, Begin{Run: 1, Mode: 2, Epoch: 3, Next: 4, JSON: 2}, []byte("{}")),
			"040000002a00000001000000020000000300000000000000040000000000000002000000000000007b7d"},
		{Append(nil, KindBegun, Begun{Run: 1, Epoch: 2, Next: 3, Batches: 4}, nil),
			"050000003000000001000000000000000200000000000000030000000000000004000000000000000000000000000000"},
		{Append(nil, KindBatch, Batch{Head: Head{Flags: 1}, Run: 2, Slot: 3, Sequence: 4, Epoch: 5, Number: 6,
			Segment: 7, Size: 64, Offset: 128, Next: 9}, nil),
			"060001004000000002000000030000000400000000000000050000000000000006000000000000000700000040000000" +
				"80000000000000000900000000000000"},
		{AppendNext(nil, 1, 2, []uint32{3, 4}), "0700000020000000010000000200000002000000000000000300000004000000"},
		{Append(nil, KindEnd, End{Run: 1, Reason: 1, Sent: 3, Epoch: 4}, nil),
			"08000000280000000100000001000000030000000000000004000000000000000000000000000000"},
		{Append(nil, KindStop, Pair{First: 1}, nil), "09000000100000000100000000000000"},
		{AppendText(nil, KindError, 1, 2, []byte("no")), "0a0000001a000000010000000200000002000000000000006e6f"},
		{someDescriptor(),
			"6b686f7062746368d000000002000000a4981dd53df1915d030000000000000004000000000000000500000000000000" +
				"0100000000000000000000000000000080000000000000000100000007020300c0000000090000000000000000000000" +
				"020000000000000003000000000000000000000000000000000000000000000000010000000000000200000005010300" +
				"c90000000700000000000000000000006400000000000000000000000000000000000000000000000000000000000000" +
				"6e756d5f6e6f6465736e6f6465732f6e"},
	} {
		got := hex.EncodeToString(c.got)
		expect.That(t, got == c.want, "got\n%s\nwant\n%s", got, c.want)
	}
}

func someDescriptor() []byte {
	d := NewDescriptor([]Form{{"num_nodes", unified.Int64, 2, InTopology | InFull},
		{"nodes/n", unified.Int32, 1, InTopology | InFull}})
	PutPlace(d, 3, 4, 5, Padded)
	PutArray(d, 0, 1, 128, []int64{2, 3})
	PutArray(d, 1, 2, 256, []int64{100})
	return d
}

// parses reports whether a message is taken, and gives back what was put in.
func parses[M message](t *testing.T, k Kind, m M, tail string) bool {
	t.Helper()
	got, rest, err := Parse[M](Append(nil, k, m, []byte(tail)))
	expect.That(t, err != nil || string(rest) == tail && string(bytesOf(&got)[8:]) == string(bytesOf(&m)[8:]),
		"%+v came back as %+v, %q", m, got, rest)
	return err == nil
}

func TestNumbersOutOfTheirRangeAreRefused(t *testing.T) {
	hello := Hello{Magic: Magic, Index: uint32(unified.Int32)}
	welcome := Welcome{Magic: Magic, Index: uint32(unified.Int64), Rank: 1, WorldSize: 2, Hold: 3, Slots: 3, JSON: 2}
	begin := Begin{Run: 1, Mode: BeginState, JSON: 2}
	expect.That(t,
		parses(t, KindHello, hello, "") && parses(t, KindWelcome, welcome, "{}") && parses(t, KindBegin, begin, "{}") &&
			parses(t, KindBegin, Begin{Run: 1, Mode: BeginState, JSON: 1}, "0"), "what is right was refused")
	for name, taken := range map[string]bool{
		"HELLO and more":          parses(t, KindHello, hello, "more"),
		"HELLO of something else": parses(t, KindHello, Hello{}, ""),
		"an index dtype":          parses(t, KindHello, Hello{Magic: Magic, Index: uint32(unified.Float32)}, ""),
		"WELCOME cut short":       parses(t, KindWelcome, welcome, "{"),
		"a rank beyond the last": parses(t, KindWelcome, Welcome{Magic: Magic, Index: 7, Rank: 2, WorldSize: 2,
			Hold: 1, Slots: 1}, ""),
		"a hold of no slots": parses(t, KindWelcome, Welcome{Magic: Magic, Index: 7, WorldSize: 2, Slots: 1},
			""),
		"an empty segment":           parses(t, KindSegment, Segment{}, ""),
		"a segment of 2^47 bytes":    parses(t, KindSegment, Segment{Size: 1 << 47}, ""),
		"segment 4,096":              parses(t, KindSegment, Segment{Size: 1, Index: 1 << 12}, ""),
		"a state in no state mode":   parses(t, KindBegin, Begin{Run: 1, JSON: 2}, "{}"),
		"a state mode, and no state": parses(t, KindBegin, Begin{Run: 1, Mode: BeginState}, ""),
		"a descriptor of 63 bytes":   parses(t, KindBatch, Batch{Size: 63}, ""),
		"a descriptor not aligned":   parses(t, KindBatch, Batch{Size: 64, Offset: 64}, ""),
		"slots that do not come":     parses(t, KindNext, Next{Count: 2}, "1234"),
	} {
		expect.That(t, !taken, "%s was taken", name)
	}
}

// A head alone has its kind; that the kind wants more is found where it is read.
func TestAMessageIsAtLeastItsHead(t *testing.T) {
	head := []byte{byte(KindHello), 0, 0, 0, 8, 0, 0, 0}
	kind, err := KindOf(head)
	expect.That(t, kind == KindHello && err == nil, "%v, %v", kind, err)
	expect.That(t, errors.Is(expect.Err(KindOf(head[:7])), ErrMessage), "7 bytes are a message")
}

// The greatest numbers are taken, and those above them are not.
func TestLimitsAreThoseOfVersionOne(t *testing.T) {
	welcome := func(slots uint32) Welcome {
		return Welcome{Magic: Magic, Index: uint32(unified.Int64), WorldSize: 1, Hold: slots, Slots: slots}
	}
	slots := make([]byte, 4*1025)
	for name, taken := range map[string][2]bool{
		"bytes of a segment": {parses(t, KindSegment, Segment{Size: 1<<47 - 1}, ""),
			parses(t, KindSegment, Segment{Size: 1 << 47}, "")},
		"segments": {parses(t, KindSegment, Segment{Size: 1, Index: 4095}, ""),
			parses(t, KindSegment, Segment{Size: 1, Index: 4096}, "")},
		"memories": {parses(t, KindSegment, Segment{Size: 1, Memory: 1}, ""),
			parses(t, KindSegment, Segment{Size: 1, Memory: 2}, "")},
		"slots": {parses(t, KindWelcome, welcome(65536), ""), parses(t, KindWelcome, welcome(65537), "")},
		"descriptor": {parses(t, KindBatch, Batch{Size: 1 << 28}, ""),
			parses(t, KindBatch, Batch{Size: 1<<28 + 1}, "")},
		"slots that come back": {parses(t, KindNext, Next{Count: 1024}, string(slots[:4096])),
			parses(t, KindNext, Next{Count: 1025}, string(slots))},
		"epochs": {parses(t, KindBegin, Begin{Run: 1, Epoch: 1<<32 - 1}, ""),
			parses(t, KindBegin, Begin{Run: 1, Epoch: 1 << 32}, "")},
		"modes":   {parses(t, KindBegin, Begin{Run: 1, Mode: 1}, ""), parses(t, KindBegin, Begin{Run: 1, Mode: 3}, "")},
		"reasons": {parses(t, KindEnd, End{Reason: 1}, ""), parses(t, KindEnd, End{Reason: 2}, "")},
	} {
		expect.That(t, taken[0] && !taken[1], "%s: the greatest was taken: %t, one more: %t", name, taken[0], taken[1])
	}
	b := Append([]byte("before"), KindStop, Pair{First: 1}, []byte("after"))
	expect.That(t, string(b[:6]) == "before" && b[6] == byte(KindStop) && string(b[22:]) == "after", "appended: %q", b)
	expect.That(t, AnyRank == uint64(1<<32-1), "AnyRank is another")
	if MaxMessage != 65536 || MaxArrays != 1048576 || MaxName != 4096 || MaxText != 4096 || Alignment != 128 {
		t.Error("a limit of docs/feed.md is another here")
	}
	long := make([]byte, MaxMessage+1)
	le.PutUint32(long[4:], MaxMessage)
	_, err := KindOf(long[:MaxMessage])
	expect.That(t, err == nil, "a message of 64 KiB: %v", err)
	le.PutUint32(long[4:], MaxMessage+1)
	if _, err := KindOf(long); err == nil {
		t.Error("a longer message was taken")
	}
}

func TestKindsOfMessagesHaveTheirNames(t *testing.T) {
	for kind, want := range map[Kind]string{KindHello: "HELLO", KindBatch: "BATCH", KindBye: "BYE",
		KindSample: "SAMPLE", KindSample + 1: "message of kind 15", 1<<16 - 1: "message of kind 65535"} {
		if got := kind.String(); got != want {
			t.Errorf("%d is %q, want %q", uint16(kind), got, want)
		}
	}
}
