//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// checkRoom asks for room for source, temporary file and dataset.
func checkRoom(o *options) error {
	var st unix.Statfs_t
	if err := unix.Statfs(o.dir, &st); err != nil {
		return err
	}
	need := o.edges*(2*o.width+6+5) + 9<<o.levels // 6 bytes an edge in the temporary file, 5 in the dataset
	if o.parts > 1 {
		need += o.edges*5 + 9<<o.levels
	}
	if have := int64(st.Bavail) * st.Bsize; have < need {
		return fmt.Errorf("%s: %d bytes are free, and about %d are needed", o.dir, have, need)
	}
	return nil
}

const (
	seed       = 20
	chunkEdges = 1 << 18
	steps      = 3 // levels that a draw of 16 bits decides
)

// law gives, for each of 65,536 draws, the bits of both ends on three levels: 0.57, 0.19, 0.19 and 0.05 a level.
func law() (table [1 << 16]uint8) {
	part, at := [4]float64{0.57, 0.19, 0.19, 0.05}, 0.0
	for cell := range 1 << (2 * steps) {
		p, code := 1.0, uint8(0)
		for k := range steps {
			quarter := cell >> (2 * k) & 3
			p *= part[quarter]
			code |= uint8(quarter>>1)<<k | uint8(quarter&1)<<(4+k)
		}
		from := int(at*(1<<16) + 0.5)
		at += p
		for i := from; i < min(int(at*(1<<16)+0.5), 1<<16); i++ {
			table[i] = code
		}
	}
	return table
}

// writePairs writes the edges to an .npy file of shape [edges, 2], unless it is there already.
func writePairs(path string, o *options) error {
	if st, err := os.Stat(path); err == nil && st.Size() == 128+2*o.width*o.edges {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := fmt.Sprintf("{'descr': '<i%d', 'fortran_order': False, 'shape': (%d, 2), }", o.width, o.edges)
	if _, err := fmt.Fprintf(f, "\x93NUMPY\x01\x00%c\x00%-117s\n", 118, head); err != nil {
		return err
	}
	table, chunks := law(), (o.edges+chunkEdges-1)/chunkEdges
	if err := inTurn(runtime.GOMAXPROCS(0), chunks, func() func(c int64) error {
		buf := make([]byte, 0, 2*o.width*chunkEdges)
		return func(c int64) error {
			buf = drawChunk(buf[:0], &table, o, c, min(chunkEdges, o.edges-c*chunkEdges))
			_, err := f.WriteAt(buf, 128+2*o.width*c*chunkEdges)
			return err
		}
	}); err != nil {
		return err
	}
	return f.Sync()
}

// drawChunk appends n edges of a chunk.
func drawChunk(buf []byte, table *[1 << 16]uint8, o *options, chunk, n int64) []byte {
	r := rand.NewPCG(seed, uint64(chunk))
	mask := uint64(1)<<o.levels - 1
	for range n {
		var src, dst uint64
		for level := 0; level < o.levels; level += 4 * steps {
			for word, k := r.Uint64(), 0; k < 4; k++ {
				code := table[uint16(word>>(16*k))]
				src, dst = src<<steps|uint64(code&7), dst<<steps|uint64(code>>4)
			}
		}
		src, dst = scramble(src&mask, o.levels), scramble(dst&mask, o.levels)
		if o.width == 4 {
			buf = binary.LittleEndian.AppendUint32(buf, uint32(src))
			buf = binary.LittleEndian.AppendUint32(buf, uint32(dst))
		} else {
			buf = binary.LittleEndian.AppendUint64(buf, src)
			buf = binary.LittleEndian.AppendUint64(buf, dst)
		}
	}
	return buf
}

// scramble is a permutation of the numbers of this many bits: neighbours in it do not stay near.
func scramble(v uint64, levels int) uint64 {
	v = v * 0x9E3779B97F4A7C15 & (1<<levels - 1)
	v = bits.Reverse64(v) >> (64 - levels)
	return v * 0xD1342543DE82EF95 & (1<<levels - 1)
}

// drop removes a file from the page cache, as far as it is written.
func drop(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
