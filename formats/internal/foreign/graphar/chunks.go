package graphar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/tables"
	"github.com/khop-gnn/khop/formats/internal/source"
)

// The names of columns that GraphAr gives.
const (
	vertexIndex = "_graphArVertexIndex"
	srcIndex    = "_graphArSrcIndex"
	dstIndex    = "_graphArDstIndex"
	offsets     = "_graphArOffset"
)

// most is the greatest count: ids are below it.
const most = 1 << 50

// absent is the error of a file that the format asks for.
func absent(at source.Place) error {
	return source.Error(at.Path(), "", -1, "copy all of the graph, or correct the YAML that leads there",
		errors.New("there is no such file"))
}

// countAt reads a count: 8 bytes, little-endian.
func countAt(at source.Place) (n int64, err error) {
	if !at.Exists() {
		return 0, absent(at)
	}
	raw, err := at.Raw()
	if err != nil {
		return 0, err
	}
	var b [8]byte
	if _, err = raw.ReadAt(b[:], 0); raw.Size != 8 {
		err = fmt.Errorf("a count has 8 bytes, and this has %d", raw.Size)
	}
	if n = int64(binary.LittleEndian.Uint64(b[:])); err == nil && (n < 0 || n > most) {
		err = fmt.Errorf("a count of %d", n)
	}
	if err = errors.Join(err, raw.Close()); err != nil {
		return 0, source.Error(at.Path(), "", -1, "write the count again", err)
	}
	return n, nil
}

// chunkFiles returns the files of a chunk: one, or those of a folder.
func chunkFiles(at source.Place) (list []source.Place) {
	if at.Exists() {
		return []source.Place{at}
	}
	for _, name := range at.Tree.Within(at.Name) {
		if !strings.HasPrefix(path.Base(name), "_") { // which writers leave beside the data
			list = append(list, at.Tree.At(name))
		}
	}
	return list
}

// rowsOf cuts total rows into chunks of a size. Where none are expected an empty one may be.
func rowsOf(total, size int64, by string) func(i int64) (c tables.Chunk, more bool) {
	return func(i int64) (tables.Chunk, bool) {
		left := total - min(total, i*size)
		return tables.Chunk{Rows: min(left, size), By: by}, left > 0 || i == 0
	}
}

// chunks returns the files of the chunks in a folder, of which next says the rows.
func chunks(folder source.Place, next func(i int64) (tables.Chunk, bool)) (files [][]source.Place, err error) {
	for i := int64(0); ; i++ {
		at := folder.In(fmt.Sprint("chunk", i))
		found := chunkFiles(at)
		switch c, more := next(i); {
		case !more && len(found) > 0:
			return nil, source.Error(at.Path(), "", -1, "remove the chunk, or write its count again",
				fmt.Errorf("the chunk is beyond the %d that %s asks for", i, c.By))
		case !more:
			return files, nil
		case c.Rows > 0 && found == nil:
			return nil, absent(at)
		}
		files = append(files, found)
	}
}

// rowsOfAll returns all chunks.
func rowsOfAll(next func(i int64) (tables.Chunk, bool), n int) (list []tables.Chunk) {
	for i := range int64(n) {
		c, _ := next(i)
		list = append(list, c)
	}
	return list
}
