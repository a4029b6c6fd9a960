package export

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// torchStorages are torch's names of storages by NumPy's names of dtypes, without the order of bytes.
var torchStorages = map[string]string{"f2": "Half", "f4": "Float", "f8": "Double", "i1": "Char", "i2": "Short",
	"i4": "Int", "i8": "Long", "u1": "Byte", "b1": "Bool"}

// pyg writes the file that torch.save makes of what to_dict of a Data or HeteroData returns: from_dict of what
// torch.load returns is the graph. The file is a zip of a pickle (protocol 2) and of the tensors' storages, and names
// nothing that torch.load(weights_only=True) refuses.
func pyg(j *job) error {
	list, err := j.arrays(&pygFile)
	if err != nil {
		return err
	}
	folder := func(a named) string { return a.name[:strings.LastIndex(a.name, "/")+1] }
	slices.SortStableFunc(list, func(a, b named) int { return strings.Compare(folder(a), folder(b)) })
	p := &pickled{}
	var kept []named
	p.WriteString("\x80\x02}(") // protocol 2; a dictionary, and its items
	if len(j.s.Nodes) > 1 || len(j.s.Edges) > 1 {
		p.text("_global_store")
		p.WriteString("}")
	}
	keys := j.storeKeys()
	for _, a := range list {
		storage := torchStorages[a.descr[1:]]
		if a.shape != nil && storage == "" {
			j.note("%q is left out: torch has no tensors of %s", a.name, a.descr)
			continue
		}
		p.enter(folder(a), keys)
		p.text(a.name[len(folder(a)):])
		if a.shape == nil {
			if err := p.number(a.output); err != nil {
				return err
			}
			continue
		}
		p.tensor(len(kept), storage, a.shape)
		kept = append(kept, a)
	}
	p.enter("", nil)
	p.WriteString("u.") // the items are all; the end
	return j.file("", func(w io.Writer) error { return p.archive(w, kept) })
}

// storeKeys returns the keys of HeteroData by folder: a node type, or source, relation and target.
func (j *job) storeKeys() map[string][]string {
	keys := map[string][]string{}
	for _, n := range j.s.Nodes {
		keys[safe(n.Name)+"/"] = []string{n.Name}
	}
	for _, e := range j.s.Edges {
		keys[edgeFolder(&e)+"/"] = []string{e.Source, e.Relation, e.Target}
	}
	return keys
}

// pickled is a pickle that is being written.
type pickled struct {
	bytes.Buffer
	in string // the folder of the dictionary that is open; ""
}

// enter ends the dictionary of a type, and begins that of another one.
func (p *pickled) enter(folder string, keys map[string][]string) {
	if folder == p.in {
		return
	}
	if p.in != "" {
		p.WriteString("u")
	}
	if p.in = folder; folder == "" {
		return
	}
	key := keys[folder]
	for _, k := range key {
		p.text(k)
	}
	if len(key) == 3 {
		p.WriteString("\x87") // a tuple of three
	}
	p.WriteString("}(")
}

func (p *pickled) text(s string) {
	p.WriteString("X")
	_ = binary.Write(p, binary.LittleEndian, uint32(len(s)))
	p.WriteString(s)
}

func (p *pickled) int(v int64) {
	p.WriteString("\x8a\x08") // of 8 bytes
	_ = binary.Write(p, binary.LittleEndian, v)
}

// number writes a scalar.
func (p *pickled) number(a *output) error {
	var b bytes.Buffer
	if err := a.write(&b); err != nil {
		return err
	}
	p.int(int64(binary.LittleEndian.Uint64(b.Bytes())))
	return nil
}

// tuple writes numbers.
func (p *pickled) tuple(list []int64) {
	p.WriteString("(")
	for _, v := range list {
		p.int(v)
	}
	p.WriteString("t")
}

// tensor writes what makes a tensor of a storage, whose rows lie one behind the other.
func (p *pickled) tensor(number int, storage string, shape []int64) {
	strides, n := make([]int64, len(shape)), int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	p.WriteString("ctorch._utils\n_rebuild_tensor_v2\n((")
	p.text("storage")
	fmt.Fprintf(p, "ctorch\n%sStorage\n", storage)
	p.text(fmt.Sprint(number))
	p.text("cpu")
	p.int(n)
	p.WriteString("tQ") // the id of what lies elsewhere
	p.int(0)
	p.tuple(shape)
	p.tuple(strides)
	p.WriteString("\x89ccollections\nOrderedDict\n)RtR") // without a gradient, and without hooks
}

// archive writes the zip.
func (p *pickled) archive(w io.Writer, kept []named) error {
	z := zip.NewWriter(w)
	entry := func(name string, write func(w io.Writer) error) error {
		m, err := z.CreateHeader(&zip.FileHeader{Name: "graph/" + name, Method: zip.Store,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		return write(m)
	}
	text := func(s string) func(w io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	if err := entry("data.pkl", text(p.String())); err != nil {
		return err
	}
	if err := entry("byteorder", text("little")); err != nil {
		return err
	}
	for i, a := range kept {
		if err := entry(fmt.Sprint("data/", i), a.write); err != nil {
			return err
		}
	}
	if err := entry("version", text("3\n")); err != nil {
		return err
	}
	return z.Close()
}
