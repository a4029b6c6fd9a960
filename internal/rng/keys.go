package rng

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// Purpose tells apart the draws that one batch makes for different ends. docs/sampling.md has the table; values that it
// does not have must not be used.
type Purpose uint8

// The purposes, with the type key T, the hop and the stream index of each. Where no draws are named, the page of docs/
// on that feature says how they are spent.
const (
	// Pick chooses in-edges. T: edge type. Hop: distance of the destination from the seeds, 0 for the first hop. Index:
	// id of the destination node. Draws: as Floyd or WithReplacement spend them.
	Pick Purpose = 0
	// Shuffle orders the items of an epoch; its batch key has batch 0. T: type of the items, 0 if none. Hop: 0. Index:
	// number of the list, 0 if there is only one. Draws: as Permutation spends them.
	Shuffle Purpose = 1
	// Negative draws negative edges. T: edge type. Hop: 0. Index: id of the positive edge.
	Negative Purpose = 2
	// Walk takes random walks. T: edge type of the step, 0 if all are one. Hop: number of the walk from this root.
	// Index: id of the root.
	Walk Purpose = 3
	// SharedVariate is one variate a node, shared by all its destinations. T: node type. Hop: as Pick. Index: id of the
	// source node. Draws: draw 0.
	SharedVariate Purpose = 4
	// Noise perturbs features. T: node type. Hop: 0. Index: id of the node.
	Noise Purpose = 5
	// Split deals items into sets. T: as Shuffle. Hop: 0. Index: id of the item. Draws: draw 0.
	Split Purpose = 6
	// Weigh chooses edges by weight. T, hop and index: as Pick. Draws: draw i for edge i of the destination, or draw j
	// for pick j with replacement.
	Weigh Purpose = 7
	// Phase says when a node's SharedVariate is drawn anew, where it stays for several batches; its batch key has batch
	// 0. T: node type. Hop: 0. Index: id of the node. Draws: draw 0.
	Phase Purpose = 8
	// Target chooses one of the targets of an edge that is a seed. T: edge type. Hop: 0. Index: number of the item.
	// Draws: draw 0.
	Target Purpose = 15
)

// BatchKey returns the key K of one batch: the low two words of a Philox block.
//
// Batch counts within the whole epoch, over all ranks, so that a batch does not depend on how many ranks share the
// epoch. Instance tells apart loaders that share a seed and must not repeat each other (training 0, validation 1, ...);
// it is 0 unless configured.
func BatchKey(seed uint64, epoch, instance uint32, batch uint64) uint64 {
	w := Philox([4]uint32{epoch, uint32(batch), uint32(batch >> 32), instance},
		[2]uint32{uint32(seed), uint32(seed >> 32)})
	return uint64(w[0]) | uint64(w[1])<<32
}

// EdgeTypeKey returns the type key T of an edge type: XXH3 (64 bits, seed 0) of its three names in UTF-8 with a zero
// byte between them. It is for graphs of several edge types; where there is one only, T is 0 whatever its names.
//
// A name that holds a zero byte, or is not UTF-8, is an error.
func EdgeTypeKey(source, relation, target string) (uint64, error) {
	names := [3]string{source, relation, target}
	for i, name := range names {
		if problem := nameProblem(name); problem != "" {
			role := [3]string{"source", "relation", "target"}[i]
			return 0, fmt.Errorf("edge type (%q, %q, %q): the %s name %s: rename it", source, relation, target, role,
				problem)
		}
	}
	var h xxh3.Hasher
	for i, name := range names {
		if i > 0 {
			h.Write(separator[:])
		}
		h.WriteString(name)
	}
	return h.Sum64(), nil
}

// NodeTypeKey returns the type key T of a node type: XXH3 (64 bits, seed 0) of its name in UTF-8. It is for graphs of
// several node types; where there is one only, T is 0 whatever its name.
//
// A name that holds a zero byte, or is not UTF-8, is an error.
func NodeTypeKey(name string) (uint64, error) {
	if problem := nameProblem(name); problem != "" {
		return 0, fmt.Errorf("node type %q: the name %s: rename it", name, problem)
	}
	return xxh3.HashString(name), nil
}

// separator stands between the names of an edge type, so that ("ab", "c", "d") and ("a", "bc", "d") have different
// keys.
var separator = [1]byte{0}

// nameProblem says why a type's name has no key, or nothing.
func nameProblem(name string) string {
	switch {
	case strings.IndexByte(name, 0) >= 0:
		return "holds a zero byte"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	}
	return ""
}

// StageKey returns the key a of one stage: what a batch does for one purpose at one hop with one type.
func StageKey(batchKey, typeKey uint64, p Purpose, hop uint8) uint64 {
	return Mix64(batchKey ^ typeKey ^ (uint64(p)<<56 | uint64(hop)<<48))
}

// Stream returns the state s of a stage's stream with the given index. Within a stage, no two indices share a stream.
func Stream(stage, index uint64) uint64 {
	return Mix64(stage + index*Golden)
}
