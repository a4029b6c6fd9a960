package sampling

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ReadPartition reads a partition as METIS writes it: the part of each node, from 0, a number a line, by fused id.
// Errors wrap ErrOptions and name the line.
func ReadPartition(r io.Reader) (*Partition, error) {
	var of []int32
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 64<<10)
	most := int64(-1)
	for lines.Scan() {
		part, err := strconv.ParseInt(string(lines.Bytes()), 10, 32)
		if err != nil || part < 0 {
			return nil, fmt.Errorf("%w: partition: line %d is %.40q, not the number of a part", ErrOptions, len(of)+1,
				lines.Text())
		}
		of, most = append(of, int32(part)), max(most, part)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("%w: partition: line %d is not the number of a part", ErrOptions, len(of)+1)
		}
		return nil, err
	}
	if most >= int64(len(of)) {
		return nil, fmt.Errorf("%w: partition: part %d of %d nodes: there are more parts than nodes", ErrOptions, most,
			len(of))
	}
	return NewPartition(of, int(most)+1)
}

// Write writes the partition as ReadPartition reads it.
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
