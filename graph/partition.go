package graph

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"
)

// ErrPartition is returned for an invalid partition, and for options that no partition satisfies.
var ErrPartition = errors.New("invalid partition")

// Partition divides the nodes of a graph, by fused id, into parts. It is read-only.
type Partition struct {
	first []int64 // [parts+1]
	nodes []int64 // by part, ascending; 32 bits would do for most graphs
	id    uint64
}

// NewPartition divides nodes 0 .. len(of)-1 into parts: of[v] is that of node v, below parts. It keeps 8 bytes a node.
// ErrPartition for a part that is out of range.
func NewPartition(of []int32, parts int) (*Partition, error) {
	if parts < 1 {
		return nil, fmt.Errorf("%w: %d parts", ErrPartition, parts)
	}
	p := &Partition{first: make([]int64, parts+1), nodes: make([]int64, len(of))}
	h := xxh3.New()
	for v, part := range of {
		if part < 0 || int(part) >= parts {
			return nil, fmt.Errorf("%w: node %d is in part %d of %d", ErrPartition, v, part, parts)
		}
		p.first[part+1]++
		if _, err := h.Write([]byte{byte(part), byte(part >> 8), byte(part >> 16), byte(part >> 24)}); err != nil {
			return nil, err
		}
	}
	p.id = h.Sum64()
	for i := range parts {
		p.first[i+1] += p.first[i]
	}
	next := slices.Clone(p.first)
	for v, part := range of {
		p.nodes[next[part]] = int64(v)
		next[part]++
	}
	return p, nil
}

// Nodes returns the number of nodes.
func (p *Partition) Nodes() int64 { return int64(len(p.nodes)) }

// Parts returns the number of parts.
func (p *Partition) Parts() int { return len(p.first) - 1 }

// Part returns the nodes of a part, fused ids in ascending order.
func (p *Partition) Part(i int) []int64 { return p.nodes[p.first[i]:p.first[i+1]] }

// String names the partition: equal names mean equal partitions.
func (p *Partition) String() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("%d-%016x", p.Parts(), p.id)
}

// ReadPartition reads a partition in the format of METIS: the part of each node, from 0, one number a line, by fused
// id. Errors wrap ErrPartition and name the line.
func ReadPartition(r io.Reader) (*Partition, error) {
	var of []int32
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 64<<10)
	most := int64(-1)
	for lines.Scan() {
		part, err := strconv.ParseInt(string(lines.Bytes()), 10, 32)
		if err != nil || part < 0 {
			return nil, fmt.Errorf("%w: line %d is %.40q, not the number of a part", ErrPartition, len(of)+1,
				lines.Text())
		}
		of, most = append(of, int32(part)), max(most, part)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("%w: line %d is not the number of a part", ErrPartition, len(of)+1)
		}
		return nil, err
	}
	if most >= int64(len(of)) {
		return nil, fmt.Errorf("%w: part %d of %d nodes: there are more parts than nodes", ErrPartition, most,
			len(of))
	}
	return NewPartition(of, int(most)+1)
}

// Write writes the partition in the format of ReadPartition.
func (p *Partition) Write(w io.Writer) error {
	of := make([]int32, len(p.nodes))
	for i := range p.Parts() {
		for _, v := range p.Part(i) {
			of[v] = int32(i)
		}
	}
	b := bufio.NewWriterSize(w, 1<<16)
	var line []byte
	for _, part := range of {
		line = append(strconv.AppendInt(line[:0], int64(part), 10), '\n')
		if _, err := b.Write(line); err != nil {
			return err
		}
	}
	return b.Flush()
}
