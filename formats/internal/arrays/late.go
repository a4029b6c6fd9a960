package arrays

import (
	"context"
	"slices"
	"strings"
)

// edgesAlone reports whether the set holds edges and columns of them, so that no array has to fit the number of nodes.
func (d *Describer) edgesAlone() bool {
	return d.of == ofBoth && !slices.ContainsFunc(d.Set.Names(), func(name string) bool {
		h, err := d.header(name)
		return !d.Used[name] && (err != nil || ofEdges[strings.ToLower(name)] == "" || len(h.Shape) == 0 ||
			h.Shape[0] != d.ends.m)
	})
}

// How many places of an array are looked at, and how many ids at each.
const (
	samplePlaces = 64
	sampleIDs    = 512
)

// sampleOf returns the greatest of some numbers of an array, the first and the last among them, and at least -1.
func (d *Describer) sampleOf(_ context.Context, name string) (most int64, err error) {
	r, c, err := d.Set[name].OpenPlaces()
	if err != nil {
		return -1, err
	}
	defer c.Close()
	most, all := -1, r.Left()
	for i := range int64(samplePlaces) {
		if skip := (all-sampleIDs)*i/(samplePlaces-1) - (all - r.Left()); skip > 0 {
			if err := r.Skip(skip); err != nil {
				return -1, d.fail(name, -1, "%w", err)
			}
		}
		v, err := r.Ints(sampleIDs)
		if err != nil {
			return -1, d.fail(name, -1, "%w", err)
		}
		for _, x := range v {
			most = max(most, x)
		}
	}
	return most, nil
}
