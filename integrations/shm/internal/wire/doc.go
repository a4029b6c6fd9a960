// Package wire is what the two ends of the feed exchange: messages, descriptors of batches, the memory that both map,
// and the socket between them. docs/feed.md specifies it. Nothing that the other end sends makes it read outside the
// ring.
package wire
