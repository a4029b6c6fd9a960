package disk

import "github.com/khop-gnn/khop/internal/enum"

// Policy says which rows a cache holds.
type Policy uint8

const (
	// Static holds the rows that the batches before were asked for most.
	Static Policy = iota
	// LRU holds the rows that were asked for last.
	LRU
	// Sieve is that of Y. Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, which GraphBolt caches by.
	Sieve
	// Ahead is a Planner's.
	Ahead
	// Optimum is a Planner's that knows all batches to come, and reads nothing along: the fewest rows that can be read.
	Optimum
	// Packed is Ahead with rows packed that the cache has no room for.
	Packed
)

var policies = []string{"static", "lru", "sieve", "look-ahead", "optimum", "packed"}

// Policies returns all of them but Packed.
func Policies() []Policy { return []Policy{Static, LRU, Sieve, Ahead, Optimum} }

// String returns the policy's name.
func (p Policy) String() string { return enum.Name(policies, p) }

// MarshalText returns the name.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
