package loader

import (
	"encoding/hex"

	"github.com/khop-gnn/khop/loader/internal/disk"
	"github.com/khop-gnn/khop/loader/internal/plan"
	"github.com/khop-gnn/khop/loader/internal/tiers"
)

// sources is where topology and rows are read.
type sources struct {
	residence Residence // never Auto
	cache     int64     // bytes of rows that are kept in memory; what was asked for, if none are
}

// source decides where the rows of each column, and the topology, come from. The plan gets the set of tiers.
func source(src Source, a *asked, p *plan.Plan, loaders int) (s sources, err error) {
	given := a.Hooks.Tier
	if from := tiers.PartialOf(src); given == nil && from != nil {
		given = &tiers.Passing{From: from}
	}
	var remote *tiers.Remote
	if a.Hooks.Remote != nil {
		id := src.ID()
		remote = &tiers.Remote{Remote: a.Hooks.Remote, Dataset: hex.EncodeToString(id[:])}
	}
	if p.Set, err = tiers.NewSet(p.Recipe, loaders, given, remote); err != nil {
		return s, err
	}
	if passing, ok := given.(*tiers.Passing); ok && passing.Bytes() > 0 {
		p.Log.Warn("a column is fetched again for each batch, because the cache of datasets has no room for it",
			"bytes", passing.Bytes())
	}
	disk := disk.Options(a.Disk)
	if s = (sources{a.Residence, disk.CacheBytes}); p.Seeds.OnRequest && s.residence == Auto {
		s.residence = Mapped
	}
	if err := a.checkRequests(s.residence); err != nil {
		return s, err
	}
	if auto := s.residence == Auto; auto || s.residence == Disk {
		s.residence = Mapped
		if p.StayOnDisk(&disk, auto) {
			s = sources{Disk, disk.CacheBytes}
		}
	}
	if p.Set.IsRemote() && !p.Seeds.OnRequest {
		disk.CacheBytes = s.cache
		s.cache = p.ReadRemote(disk)
	}
	if len(a.Columns.Widen) > 0 && p.Set.AsStored() {
		return s, refuse("Columns.Widen",
			": rows that a Tier brings are delivered as they are stored")
	}
	p.On.ChooseTiers(p.Set)
	return s, nil
}

// checkRequests refuses options with which no request can be answered.
func (a *asked) checkRequests(where Residence) error {
	field := ""
	switch {
	case a.Seeds.kind != onRequest:
	case where == Disk:
		return refuse("Residence", " is disk, where batches must be known ahead, and "+
			"requests are not: take mapped or resident")
	case a.Shuffle:
		field = "Shuffle"
	case a.DropLast:
		field = "DropLast"
	case a.WorldSize > 1:
		field = "WorldSize"
	}
	if field != "" {
		return refuse(field, " is of epochs, but seeds come with requests")
	}
	return nil
}
