package slots

// takeLinks looks up the batch's seeds that are edges, and draws their negatives.
func (s *Slot) takeLinks(m Sampler, j Job, lo, hi int64) error {
	r := s.Recipe
	clear(s.LinkCounts)
	found, items := s.linkMemory.found[:hi-lo], s.linkMemory.items[:hi-lo]
	for i := range found {
		if items[i] = lo + int64(i); j.Order != nil {
			items[i] = int64(j.Order.At(uint64(items[i])))
		}
		var err error
		if found[i], err = r.Seeds.LinkAt(items[i]); err != nil {
			return err
		}
		s.LinkCounts[found[i].EdgeType][0]++
	}
	s.linkMemory.carve(r, s.Links, s.LinkCounts, s.Request.Exclude)
	for i, x := range found {
		l := &s.Links[x.EdgeType]
		l.Sources, l.Targets = append(l.Sources, x.Source), append(l.Targets, x.Target)
		l.Labels, l.Group = append(l.Labels, x.Label), append(l.Group, int32(len(l.Items)))
		if l.Items = append(l.Items, items[i]); r.Seeds.Timed {
			l.Times = append(l.Times, x.Time)
		}
	}
	s.exclude()
	if err := m.Negatives(s.Request.Rand, s.Links); err != nil {
		return err
	}
	for e := range s.Links {
		l := &s.Links[e]
		if s.Request.Edges[e] = l.SeedEdges; !r.Seeds.Timed {
			s.Request.Edges[e].Times = nil
		}
		s.LinkCounts[e] = [3]int64{int64(len(l.Items)), int64(len(l.Sources) - len(l.Items)), l.Missed}
	}
	return nil
}

// exclude notes which edges the batch leaves out.
func (s *Slot) exclude() {
	r := s.Recipe
	if !r.Exclude {
		return
	}
	for e := range s.Request.Exclude {
		x := &s.Request.Exclude[e]
		l := &s.Links[e]
		x.Sources, x.Targets = append(x.Sources, l.Sources...), append(x.Targets, l.Targets...)
	}
	for e, back := range r.Reverses {
		for _, b := range back {
			x := &s.Request.Exclude[b]
			x.Sources, x.Targets = append(x.Sources, s.Links[e].Targets...), append(x.Targets, s.Links[e].Sources...)
		}
	}
}
