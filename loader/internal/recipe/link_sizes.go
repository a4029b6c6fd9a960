package recipe

import "github.com/khop-gnn/khop/internal/sat"

// LinkBytes returns what linkMemory takes in each slot; 0 where seeds are nodes.
func (s *Spec) LinkBytes() int64 {
	asked, all := s.AskedLinks(), s.MostLinks()
	return sat.Add(sat.Mul(40+8, asked), sat.Add(sat.Mul(8, s.LinkInts()), sat.Mul(4, all)))
}

// AskedLinks returns the most edges that a batch is asked for.
func (s *Spec) AskedLinks() int64 {
	if s.Seeds.ByEdge == nil {
		return 0
	}
	return min(int64(s.BatchSize), s.Seeds.Count)
}

// LinkInts returns how many numbers of 64 bits the lists have together.
func (s *Spec) LinkInts() int64 {
	n := sat.Add(sat.Mul(4, s.MostLinks()), s.AskedLinks())
	return sat.Add(n, sat.Mul(2*s.exclusions(), s.AskedLinks()))
}

// exclusions returns how many edges are left out at most because of one that was asked for.
func (s *Spec) exclusions() int64 {
	if !s.Exclude {
		return 0
	}
	most := 0
	for _, back := range s.Reverses {
		most = max(most, len(back))
	}
	return 1 + int64(most)
}

// MostLinks returns the most edges that are seeds or negatives in a batch; 0 where seeds are nodes.
func (s *Spec) MostLinks() int64 {
	if s.Seeds.ByEdge == nil {
		return 0
	}
	return sat.Add(s.AskedLinks(), s.Negatives.Of(s.AskedLinks()))
}

// SeededTypes marks the edge types that have seeds.
func (s *Spec) SeededTypes() []bool {
	types := make([]bool, len(s.Seeds.ByEdge))
	for e, n := range s.Seeds.ByEdge {
		types[e] = n > 0
	}
	return types
}
