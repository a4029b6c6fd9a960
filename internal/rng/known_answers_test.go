package rng

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/khop-gnn/khop/internal/expect"
)

// hex is an unsigned number that the known answers write as a string, "0x...".
type hex uint64

func (h *hex) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := strconv.ParseUint(s, 0, 64)
	*h = hex(v)
	return err
}

// subsetAnswer is one case of sampling, with or without replacement.
type subsetAnswer struct {
	A, Index hex
	N, K     uint64
	Picks    []uint64
}

// knownAnswers is testdata/vectors.json, less its graph and batches, which are for the package that samples. Names in
// the file differ from these in case.
type knownAnswers struct {
	Philox []struct {
		Counter, Out [4]hex
		Key          [2]hex
	} `json:"philox4x32_10"`
	BatchKey []struct {
		K, Seed, Batch  hex
		Epoch, Instance uint32
	} `json:"batch_key"`
	TypeKey []struct {
		T     hex
		Bytes string `json:"bytes_hex"`
		Types []string
	} `json:"type_key"`
	StageKey []struct {
		K, T, A hex
		Purpose Purpose
		Hop     uint8
	} `json:"stage_key"`
	Draws []struct {
		A, Index, S hex
		Draws       []hex
	}
	Without []subsetAnswer `json:"without_replacement"`
	With    []subsetAnswer `json:"with_replacement"`
	Shuffle []struct {
		Seed, T, List    hex
		Epoch, Instance  uint32
		N                uint64
		Positions, Items []uint64
		Check            *hex
	}
}

func readKnownAnswers(t *testing.T) knownAnswers {
	t.Helper()
	b := expect.Must(os.ReadFile("testdata/vectors.json"))(t)
	var k knownAnswers
	expect.OK(t, json.Unmarshal(b, &k))
	return k
}

// atLeast guards against a section that is gone, or that decodes to nothing.
func atLeast(t *testing.T, what string, got, want int) {
	t.Helper()
	expect.That(t, got >= want, "%s: %d known answers, want at least %d", what, got, want)
}

func TestPhiloxMatchesKnownAnswers(t *testing.T) {
	answers := readKnownAnswers(t).Philox
	atLeast(t, "philox4x32_10", len(answers), 4)
	for _, v := range answers {
		c := [4]uint32{uint32(v.Counter[0]), uint32(v.Counter[1]), uint32(v.Counter[2]), uint32(v.Counter[3])}
		want := [4]uint32{uint32(v.Out[0]), uint32(v.Out[1]), uint32(v.Out[2]), uint32(v.Out[3])}
		got := Philox(c, [2]uint32{uint32(v.Key[0]), uint32(v.Key[1])})
		expect.That(t, got == want, "Philox(%08x, %08x) = %08x, want %08x", v.Counter, v.Key, got, want)
	}
}

func TestKeysMatchKnownAnswers(t *testing.T) {
	k := readKnownAnswers(t)
	atLeast(t, "batch_key", len(k.BatchKey), 5)
	for _, v := range k.BatchKey {
		got := BatchKey(uint64(v.Seed), v.Epoch, v.Instance, uint64(v.Batch))
		expect.That(t, got == uint64(v.K), "BatchKey(seed %#x, epoch %d, instance %d, batch %#x) = %#x, want %#x",
			v.Seed, v.Epoch, v.Instance, v.Batch, got, v.K)
	}
	atLeast(t, "type_key", len(k.TypeKey), 2)
	for _, v := range k.TypeKey {
		joined := fmt.Sprintf("%x", v.Types[0]+"\x00"+v.Types[1]+"\x00"+v.Types[2])
		expect.That(t, joined == v.Bytes, "names %q give bytes %s, want %s", v.Types, joined, v.Bytes)
		got, err := EdgeTypeKey(v.Types[0], v.Types[1], v.Types[2])
		expect.That(t, err == nil && got == uint64(v.T), "EdgeTypeKey(%q) = %#x, %v, want %#x", v.Types, got, err, v.T)
	}
	atLeast(t, "stage_key", len(k.StageKey), 5)
	for _, v := range k.StageKey {
		if got := StageKey(uint64(v.K), uint64(v.T), v.Purpose, v.Hop); got != uint64(v.A) {
			t.Errorf("StageKey(%#x, %#x, %d, %d) = %#x, want %#x", v.K, v.T, v.Purpose, v.Hop, got, v.A)
		}
	}
}

func TestDrawsMatchKnownAnswers(t *testing.T) {
	answers := readKnownAnswers(t).Draws
	atLeast(t, "draws", len(answers), 3)
	for _, v := range answers {
		s := Stream(uint64(v.A), uint64(v.Index))
		expect.That(t, s == uint64(v.S), "Stream(%#x, %#x) = %#x, want %#x", v.A, v.Index, s, v.S)
		atLeast(t, "draws of a stream", len(v.Draws), 8)
		for i, want := range v.Draws {
			got := Draw(s, uint64(i))
			expect.That(t, got == uint64(want), "Draw(%#x, %d) = %#x, want %#x", s, i, got, want)
		}
	}
	// The first outputs of SplitMix64 with seed 0, as published with that generator.
	for i, want := range []uint64{0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F} {
		got := Draw(0, uint64(i))
		expect.That(t, got == want, "Draw(0, %d) = %#x, want %#x", i, got, want)
	}
}

func TestSubsetsMatchKnownAnswers(t *testing.T) {
	k := readKnownAnswers(t)
	for _, c := range []struct {
		name    string
		answers []subsetAnswer
		least   int
		sample  func(dst []uint64, s, n, k uint64) []uint64
	}{
		{"Floyd", k.Without, 12, Floyd},
		{"WithReplacement", k.With, 5, WithReplacement},
	} {
		atLeast(t, c.name, len(c.answers), c.least)
		for _, v := range c.answers {
			got := c.sample(nil, Stream(uint64(v.A), uint64(v.Index)), v.N, v.K)
			expect.That(t, slices.Equal(got, v.Picks), "%s: stage %#x, index %d, n %d, k %d: %d, want %d", c.name, v.A,
				v.Index, v.N, v.K, got, v.Picks)
		}
	}
}

func TestShufflesMatchKnownAnswers(t *testing.T) {
	answers := readKnownAnswers(t).Shuffle
	atLeast(t, "shuffle", len(answers), 9)
	sums := 0
	for _, v := range answers {
		a := StageKey(BatchKey(uint64(v.Seed), v.Epoch, v.Instance, 0), uint64(v.T), Shuffle, 0)
		p := NewPermutation(Stream(a, uint64(v.List)), v.N)
		name := fmt.Sprintf("seed %d, epoch %d, list %d, n %d", v.Seed, v.Epoch, v.List, v.N)
		if len(v.Positions) == 0 || len(v.Positions) != len(v.Items) {
			t.Errorf("%s: %d positions, %d items", name, len(v.Positions), len(v.Items))
			continue
		}
		for j, i := range v.Positions {
			if got := p.At(i); got != v.Items[j] {
				t.Errorf("%s: At(%d) = %d, want %d", name, i, got, v.Items[j])
			}
		}
		if v.Check == nil {
			continue // too long to sum
		}
		sums++
		var sum uint64
		for i := range v.N {
			sum += Mix64(p.At(i) + i*Golden)
		}
		if sum != uint64(*v.Check) {
			t.Errorf("%s: check sum %#x, want %#x", name, sum, *v.Check)
		}
	}
	atLeast(t, "check sums of shuffles", sums, 8)
}
