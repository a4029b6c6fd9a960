package disk

// Counts is what plans came to.
type Counts struct {
	Batches  int64 `json:"batches"`
	Rows     int64 `json:"rows"`     // asked for, each once a batch
	Misses   int64 `json:"misses"`   // of them, not in the cache
	Packed   int64 `json:"packed"`   // of these, packed
	Along    int64 `json:"along"`    // rows read for later batches, because they were on pages of others
	Requests int64 `json:"requests"` // to the disk
	Bytes    int64 `json:"bytes"`    // read from it
	Useful   int64 `json:"useful"`   // of these, bytes of rows that were read for a batch
	Writes   int64 `json:"writes"`   // requests that write packed rows
	Written  int64 `json:"written"`  // bytes of them
}

// fields are all of them.
func (c *Counts) fields() []*int64 {
	return []*int64{&c.Batches, &c.Rows, &c.Misses, &c.Packed, &c.Along, &c.Requests, &c.Bytes, &c.Useful, &c.Writes,
		&c.Written}
}

// Add adds what other plans came to.
func (c *Counts) Add(d Counts) {
	for i, n := range d.fields() {
		*c.fields()[i] += *n
	}
}

// Times returns n times c.
func (c Counts) Times(n int64) Counts {
	for _, f := range c.fields() {
		*f *= n
	}
	return c
}

// Less returns what c came to beyond d.
func (c *Counts) Less(d *Counts) Counts {
	less := d.Times(-1)
	less.Add(*c)
	return less
}

// PageCounts is what was asked of Pages.
type PageCounts struct {
	Wanted   int64 `json:"wanted"`   // asks for a page
	Read     int64 `json:"read"`     // pages that were read, from the disk or the system's cache
	Requests int64 `json:"requests"` // that read them
	Bytes    int64 `json:"bytes"`    // that these read
}

// Less returns what was asked for since.
func (c PageCounts) Less(before *PageCounts) PageCounts {
	return PageCounts{c.Wanted - before.Wanted, c.Read - before.Read, c.Requests - before.Requests,
		c.Bytes - before.Bytes}
}

// Half returns half of it.
func (c PageCounts) Half() PageCounts {
	return PageCounts{c.Wanted / 2, c.Read / 2, c.Requests / 2, c.Bytes / 2}
}

// PackState says how rows are packed.
type PackState struct {
	Bytes   int64  `json:"bytes"`             // of the temporary file, at most
	Chunk   int64  `json:"chunk_bytes"`       // of a request to it
	Refused string `json:"refused,omitempty"` // why no rows are packed any more; empty if they are
}
