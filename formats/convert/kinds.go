package convert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/khop-gnn/khop/formats/edgelist"
	"github.com/khop-gnn/khop/formats/musae"
	"github.com/khop-gnn/khop/formats/npz"
	"github.com/khop-gnn/khop/formats/source"
)

// kind is a format that can be converted.
type kind struct {
	name, title string
	text        bool // takes the options of edge lists
	// is looks at a path: for a directory entries are its names, for a file head its first bytes.
	is   func(path string, entries []string, head []byte) bool
	read func(ctx context.Context, c *conversion, nodes int64) (*source.Graph, error)
}

// kinds are tried in order; the last takes any text.
var kinds = []kind{
	{
		name: "musae", title: "a MUSAE collection: edges, ragged features and a target table",
		is: func(_ string, entries []string, _ []byte) bool { _, ok := musae.Prefix(entries); return ok },
		read: func(ctx context.Context, c *conversion, _ int64) (*source.Graph, error) {
			entries, _, err := look(c.src)
			if err != nil {
				return nil, err
			}
			prefix, ok := musae.Prefix(entries)
			if !ok {
				return nil, source.Error(c.src, "", -1,
					"name a directory with X_edges.csv, X_features.json and X_target.csv", ErrUnknown)
			}
			return musae.Read(ctx, c.src, prefix, musae.Options{TempDir: c.temp, Ledger: &c.ledger,
				Progress: c.opt.Progress})
		},
	},
	{
		name: "npz", title: "a NumPy archive",
		is: func(_ string, entries []string, head []byte) bool { return entries == nil && npz.Looks(head) },
		read: func(ctx context.Context, c *conversion, _ int64) (*source.Graph, error) {
			return npz.Read(ctx, c.src, &c.ledger)
		},
	},
	{
		name: "edgelist", title: "an edge list", text: true,
		is: func(_ string, entries []string, head []byte) bool { return entries == nil && edgelist.Looks(head) },
		read: func(ctx context.Context, c *conversion, nodes int64) (*source.Graph, error) {
			ids, ok := map[string]edgelist.IDs{"": edgelist.Auto, "auto": edgelist.Auto, "numbers": edgelist.Numbers,
				"names": edgelist.Names}[c.opt.IDs]
			if !ok {
				return nil, fmt.Errorf("%w: ids %q is none of auto, numbers, names", ErrOptions, c.opt.IDs)
			}
			return edgelist.Read(ctx, c.src, edgelist.Options{
				IDs: ids, Columns: c.opt.Columns, Nodes: nodes, TempDir: c.temp, Ledger: &c.ledger,
				Progress: c.opt.Progress,
			})
		},
	},
}

// Kinds returns the names of the kinds that Options.From takes, with a title each.
func Kinds() [][2]string {
	var list [][2]string
	for _, k := range kinds {
		list = append(list, [2]string{k.name, k.title})
	}
	return list
}

// recognise finds the kind of a source, or checks the one that is given.
func recognise(path, from string) (*kind, error) {
	entries, head, err := look(path)
	if err != nil {
		return nil, err
	}
	for i := range kinds {
		if k := &kinds[i]; k.name == from || from == "" && k.is(path, entries, head) {
			return k, nil
		}
	}
	if from != "" {
		return nil, fmt.Errorf("%w: no kind of source %q; there are: %s", ErrOptions, from, kindNames())
	}
	return nil, source.Error(path, "", -1, "name the kind by --from ("+kindNames()+")",
		fmt.Errorf("%w: %s", ErrUnknown, guess(entries, head)))
}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return strings.Join(names, ", ")
}

// look returns the names in a directory, or the first bytes of a file as they are when decompressed.
func look(path string) (entries []string, head []byte, err error) {
	st, err := source.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if st.IsDir() {
		list, err := os.ReadDir(path)
		entries = []string{}
		for _, e := range list {
			entries = append(entries, e.Name())
		}
		return entries, nil, err
	}
	f, err := source.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	head = make([]byte, 4096)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil, source.Error(path, "", -1, "", err)
	}
	return nil, head[:n], nil
}

// guess says what else a source may be.
func guess(entries []string, head []byte) string {
	switch {
	case entries != nil && has(entries, "dataset.json"):
		return "it is a khop dataset already"
	case entries != nil && has(entries, "raw") && has(entries, "split"):
		return "a directory in OGB's layout: name its raw/edge.csv.gz"
	case entries != nil:
		return "a directory of nothing that is known"
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return "a tar archive: unpack it first"
	case bytes.HasPrefix(head, []byte("\x93NUMPY")):
		return "a single NumPy array: name an edge list and give it as --features"
	case len(head) > 1 && head[0] == 0x80 && head[1] <= 5:
		return "a Python pickle, which is never executed"
	case bytes.HasPrefix(head, []byte("PAR1")):
		return "a Parquet file"
	case bytes.HasPrefix(head, []byte("ARROW1")):
		return "an Arrow file"
	case len(head) == 0:
		return "an empty file"
	}
	return "a file of nothing that is known"
}

func has(entries []string, name string) bool {
	for _, e := range entries {
		if filepath.Base(e) == name {
			return true
		}
	}
	return false
}
