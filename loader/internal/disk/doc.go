// Package disk has what loads from files that are larger than memory: the tier of columns that stay on disk (Tier), for
// whose cache Ahead samples batches before they are due, and a topology whose pages are brought as samplers need them
// (Paged). Package diskio reads the files.
package disk
