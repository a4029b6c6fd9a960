package disk

// Shape is that of the requests to a disk.
type Shape struct {
	Page int64 `json:"page"` // what lies between multiples of it costs as much as any part of it
	Gap  int64 `json:"gap"`  // bytes that are read along rather than begin another request
	Most int64 `json:"most"` // the most bytes of one; a multiple of Page
	// Sector is what they begin and end at multiples of: a part of Page where the system allows it.
	Sector int64 `json:"sector"`
}

// Probe is what a disk gives, as tried with a file.
type Probe struct {
	Engine string `json:"engine"` // "io_uring" or "threads"
	// Refused is why it is not io_uring, and Buffered why it is not read past the page cache; empty if it is.
	Refused  string `json:"refused,omitempty"`
	Buffered string `json:"buffered,omitempty"`
	Depth    int    `json:"depth"`
	Shape
	// Small is requests of one Page a second, Large bytes a second in requests of Most bytes. 0: not tried.
	Small float64 `json:"small_per_second"`
	Large float64 `json:"large_bytes_per_second"`
}

// Seconds returns about how long the disk takes for a number of requests, which have that many bytes together.
func (p *Probe) Seconds(requests, bytes int64) float64 {
	each, perByte := p.cost()
	return float64(requests)*each + float64(bytes)*perByte
}

// cost returns what the disk takes for a request, in seconds, and for each of its bytes.
func (p *Probe) cost() (each, perByte float64) {
	if p.Small <= 0 || p.Large <= 0 || p.Most <= p.Page {
		return 10e-6, 1e-9
	}
	small, large := 1/p.Small, float64(p.Most)/p.Large
	perByte = max(0, large-small) / float64(p.Most-p.Page)
	return max(small-float64(p.Page)*perByte, 0), perByte
}
