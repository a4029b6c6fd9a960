package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/khop-gnn/khop/unified"
)

// blocks has another process compute rows: own rows and sums of some nodes are in a file, one behind the
// other, and a line says so. The other process writes the rows behind them, and answers with a line: empty, or an
// error's text. docs/embed.md describes it.
type blocks struct {
	file    *os.File
	say     *json.Encoder
	answers *bufio.Reader
}

// blockLine describes a block. Scripts rely on the names.
type blockLine struct {
	Layer int        `json:"layer"` // from 0
	Nodes string     `json:"nodes"` // their type
	Own   int        `json:"own_floats"`
	Sums  []blockSum `json:"sums"`
	To    int        `json:"row_floats"`
}

// blockSum is the sums over edges of a type.
type blockSum struct {
	Edges  string `json:"edges"`
	Floats int    `json:"floats"`
}

func openBlocks(path string, out io.Writer) (*blocks, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &blocks{f, json.NewEncoder(out), bufio.NewReader(os.Stdin)}, nil
}

// errRows is what the other process answers.
var errRows = errors.New("rows were not computed")

func (b *blocks) rows(layer int, nodes string, own []float32, sums map[string][]float32, y []float32) error {
	at, parts := int64(0), [][]float32{own}
	line := blockLine{layer, nodes, len(own), []blockSum{}, len(y)}
	for _, edges := range slices.Sorted(maps.Keys(sums)) {
		parts = append(parts, sums[edges])
		line.Sums = append(line.Sums, blockSum{edges, len(sums[edges])})
	}
	for _, part := range parts {
		n, err := b.file.WriteAt(unified.FromSlice(part).Bytes(), at)
		if at += int64(n); err != nil {
			return err
		}
	}
	if err := b.say.Encode(line); err != nil {
		return err
	}
	answer, err := b.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%w: no answer: %w", errRows, err)
	}
	if answer != "\n" {
		return fmt.Errorf("%w: %s", errRows, answer[:len(answer)-1])
	}
	_, err = b.file.ReadAt(unified.FromSlice(y).Bytes(), at)
	return err
}
