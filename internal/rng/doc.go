// Package rng is the counter-based generator behind every random choice of khop. Every sampler, shuffle and device
// kernel follows it bit for bit. docs/sampling.md is the specification.
//
// # Basics
//
// A draw is a pure function of a few integers, so nothing depends on the number of threads, on the order in which nodes
// are visited, on the machine, or on what was drawn before. Keys are made in steps, each cheaper and more frequent than
// the one before:
//
//	K = BatchKey(seed, epoch, instance, batch)    once a batch: Philox4x32-10
//	T = EdgeTypeKey(source, relation, target)     once a dataset: XXH3 of the names; 0 where there is one type only
//	a = StageKey(K, T, purpose, hop)              once a stage (a hop of an edge type): one Mix64
//	s = Stream(a, index)                          once a node (or edge, list, item): one Mix64
//	d = Draw(s, i)                                once a choice: one Mix64; any i, in any order
//
// A draw becomes a choice by Bounded, Float64 or Float32, each of which spends exactly one draw, and several choices
// by:
//
//	Floyd(dst, s, n, k)              k of n without replacement, ascending
//	WithReplacement(dst, s, n, k)    k of n with replacement, in draw order
//	NewPermutation(s, n)             a keyed shuffle: At(i) is the item at position i
//
// Each Purpose says what the index of its streams is, and which type key and hop belong to its stages.
//
// Floyd and WithReplacement are the oracles that fast kernels are compared with.
//
// # Caveats
//
// The draws are not secret: from a few draws the state can be found. Never use them where an adversary must not guess.
//
// An index is the id of a node (edge, item) of its own type in the dataset, counted from 0; never a local number within
// a batch, nor the number of a thread, worker, device or rank. A signed id enters as its two's complement.
//
// Epochs and instances have 32 bits, purposes and hops 8 bits. Callers refuse greater numbers; nothing wraps.
//
// Streams of different stages are told apart by 64-bit states: among M streams about M²/2⁶⁵ pairs agree. Training does
// not notice it, but the number is not zero.
//
// A change of any result in this package changes every batch of every user: it is a new version of the sampling
// semantics.
//
// All functions are pure, and a Permutation never changes once made: any number of goroutines may use them. Only
// NewPermutation allocates, for n of at most 65536 (2 bytes an item).
package rng
