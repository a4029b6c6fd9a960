// Package disk has what loading from a disk tells its callers: what a probe of the disk found (Probe), what was read
// (Counts, PageCounts), which rows a cache holds (Policy), and where reading failed (ReadError). Package loader reads
// the columns and says how.
package disk
