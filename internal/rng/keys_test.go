package rng

import (
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/khop-gnn/khop/internal/expect"
)

func TestTypeKeysRefuseNamesThatCannotBeTold(t *testing.T) {
	for _, c := range []struct{ source, relation, target, want string }{
		{"us\x00er", "rates", "item", "source name holds a zero byte"},
		{"user", "\x00", "item", "relation name holds a zero byte"},
		{"user", "rates", "item\x00", "target name holds a zero byte"},
		{"user", "r\xffates", "item", "relation name is not valid UTF-8"},
	} {
		key, err := EdgeTypeKey(c.source, c.relation, c.target)
		expect.That(t, err != nil && strings.Contains(err.Error(), c.want) && key == 0,
			"EdgeTypeKey(%q, %q, %q) = %#x, %v, want an error with %q", c.source, c.relation, c.target, key, err,
			c.want)
	}
	for _, c := range []struct{ name, want string }{{"a\x00", "holds a zero byte"}, {"\xc3", "is not valid UTF-8"}} {
		key, err := NodeTypeKey(c.name)
		expect.That(t, err != nil && strings.Contains(err.Error(), c.want) && key == 0,
			"NodeTypeKey(%q) = %#x, %v, want an error with %q", c.name, key, err, c.want)
	}
}

func TestTypeKeysTellNamesApart(t *testing.T) {
	seen := map[uint64]string{}
	note := func(key uint64, err error, what string) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if other, ok := seen[key]; ok {
			t.Errorf("%s and %s share the key %#x", what, other, key)
		}
		seen[key] = what
	}
	for _, n := range [][3]string{{"a", "b", "c"}, {"ab", "", "c"}, {"", "ab", "c"}, {"c", "b", "a"}, {"a", "bc", ""},
		{"", "", ""}} {
		key, err := EdgeTypeKey(n[0], n[1], n[2])
		note(key, err, strings.Join(n[:], "/"))
	}
	for _, n := range []string{"a", "b", "c", "ab", "abc", "Größe"} {
		key, err := NodeTypeKey(n)
		note(key, err, n)
	}
}

// The names are hashed piece by piece; the specification hashes them joined. The hash works in blocks of 64 and 1024
// bytes, so lengths around those matter.
func TestTypeKeysHashTheNamesJoined(t *testing.T) {
	text := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz-", 120)
	for _, i := range []int{0, 1, 3, 16, 63, 64, 65, 240, 1023, 1024, 1025, 1088, 2111} {
		for _, j := range []int{0, 1, 62, 239, 960, 1087, 2048} {
			source, relation, target := text[:i], text[1:1+j], text[2:2+(i+j)%200]
			got, err := EdgeTypeKey(source, relation, target)
			want := xxh3.HashString(source + "\x00" + relation + "\x00" + target)
			expect.That(t, err == nil && got == want, "names of %d, %d and %d bytes: key %#x, %v, want %#x",
				len(source), len(relation), len(target), got, err, want)
		}
		got, err := NodeTypeKey(text[:i])
		want := xxh3.HashString(text[:i])
		expect.That(t, err == nil && got == want, "a name of %d bytes: key %#x, %v, want %#x", i, got, err, want)
	}
}

func TestStageKeysSeparateEveryPurposeAndHop(t *testing.T) {
	k := BatchKey(42, 0, 0, 0)
	seen := map[uint64]bool{}
	for p := Pick; p <= Split; p++ {
		for hop := range 256 {
			seen[StageKey(k, 0, p, uint8(hop))] = true
		}
	}
	want := 7 * 256
	expect.That(t, len(seen) == want, "%d distinct stage keys of %d purposes and hops", len(seen), want)
}

func TestNothingAllocates(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage counters change what is inlined")
	}
	dst := make([]uint64, 0, 64)
	stored := NewPermutation(1, 1000)
	var sink uint64
	for name, f := range map[string]func(){
		"BatchKey":    func() { sink += BatchKey(1, 2, 3, 4) },
		"EdgeTypeKey": func() { k, _ := EdgeTypeKey("user", "rates", "item"); sink += k },
		"NodeTypeKey": func() { k, _ := NodeTypeKey("user"); sink += k },
		"StageKey and Stream and Draw": func() {
			sink += Bounded(Draw(Stream(StageKey(sink, 2, Walk, 4), 5), 6), 7)
		},
		"Float":                    func() { sink += uint64(Float64(sink)) + uint64(Float32(sink)) },
		"Floyd":                    func() { sink += Floyd(dst, sink, 1000, 15)[0] },
		"Floyd, all":               func() { sink += Floyd(dst, sink, 60, 60)[0] },
		"WithReplacement":          func() { sink += WithReplacement(dst, sink, 1000, 15)[0] },
		"At, stored":               func() { sink += stored.At(sink % 1000) },
		"NewPermutation, computed": func() { p := NewPermutation(sink, 1<<40); sink += p.At(7) },
	} {
		got := testing.AllocsPerRun(100, f)
		expect.That(t, got == 0, "%s: %v allocations", name, got)
	}
	_ = sink
}
