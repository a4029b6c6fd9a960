package torch

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khop-gnn/khop/formats/internal/foreign/pickle"
	"github.com/khop-gnn/khop/formats/internal/source"
	"github.com/khop-gnn/khop/pinned"
	"github.com/khop-gnn/khop/unified"
)

// ErrFormat is returned for bytes that torch.save has not written.
var ErrFormat = errors.New("not a file of torch.save, or a damaged one")

// File is an open file. Its owner calls Close; tensors are valid until then.
type File struct {
	// Value is what was saved, as package pickle reads it. Tensor reads the tensors in it.
	Value any
	Path  string

	raw      *source.Raw
	ledger   *pinned.Ledger
	taken    int64
	storages map[string][]byte
	spools   []io.Closer
}

// names are the classes that may stand in a pickle of torch and PyTorch Geometric. They are never made.
func names(n pickle.Name) bool {
	s := string(n)
	switch {
	case strings.HasPrefix(s, "torch_geometric."), strings.HasPrefix(s, "torch_sparse."):
		return true
	case strings.HasPrefix(s, "torch.") && strings.HasSuffix(s, "Storage"):
		return true
	}
	switch s {
	case "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3", "torch._utils._rebuild_tensor",
		"torch._utils._rebuild_parameter", "torch._utils._rebuild_sparse_tensor", "torch.serialization._get_layout",
		"torch.Size", "torch.ScriptObject", "torch.device",
		"dgl.graphbolt.impl.fused_csc_sampling_graph.FusedCSCSamplingGraph",
		"torch.Tensor", "torch._tensor._rebuild_from_type_v2", "weakref.ref":
		return true
	}
	d, _ := dtypeOf(strings.TrimPrefix(s, "torch."))
	return d != unified.Invalid
}

// Looks reports whether a file's first bytes may be those of torch.save, of either layout.
func Looks(head []byte) bool {
	return pickle.LooksLikeTorch(head) || strings.HasPrefix(string(head), "PK\x03\x04")
}

// Open opens a file and reads the value in it. What the value takes is counted in the budget until Close.
func Open(at source.Place, b *source.Budget) (_ *File, err error) {
	raw, err := at.Raw()
	if err != nil {
		return nil, err
	}
	f := &File{Path: raw.Path, raw: raw, ledger: b.Ledger(), storages: map[string][]byte{}}
	before := f.ledger.Used(pinned.Sources)
	defer func() {
		f.taken = f.ledger.Used(pinned.Sources) - before
		if err != nil {
			err = errors.Join(source.Error(f.Path, "", -1, "", err), f.Close())
		}
	}()
	mem, err := raw.Whole(b)
	if err != nil {
		return nil, err
	}
	if len(mem) > 4 && string(mem[:4]) == "PK\x03\x04" {
		return f, f.readZip(mem, b)
	}
	return f, f.readOld(mem)
}

// Close closes the file.
func (f *File) Close() error {
	f.ledger.Give(pinned.Sources, f.taken)
	f.taken = 0
	var errs []error
	for _, s := range f.spools {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, f.raw.Close())...)
}

// readZip reads the layout since torch 1.6: data.pkl and a member for each storage.
func (f *File) readZip(mem []byte, b *source.Budget) error {
	z, err := zip.NewReader(f.raw, f.raw.Size)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var value *zip.File
	prefix := ""
	for _, m := range z.File {
		if p, ok := strings.CutSuffix(m.Name, "data.pkl"); ok && (p == "" || strings.HasSuffix(p, "/")) {
			value, prefix = m, p
		}
	}
	if value == nil {
		return fmt.Errorf("%w: the archive has no data.pkl", ErrFormat)
	}
	for _, m := range z.File {
		key, ok := strings.CutPrefix(m.Name, prefix+"data/")
		if m.Name == prefix+"byteorder" {
			if text, err := f.member(m, mem, b); err != nil || strings.TrimSpace(string(text)) != "little" {
				return errors.Join(errors.New("its numbers are big-endian, which is not supported: save it on "+
					"another machine"), err)
			}
		}
		if !ok {
			continue
		}
		if f.storages[key], err = f.member(m, mem, b); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	r, err := value.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	f.Value, err = pickle.Read(bufio.NewReaderSize(r, 1<<16), names, f.ledger)
	return err
}

// member returns the bytes of a member: where they lie, unless they are compressed.
func (f *File) member(m *zip.File, mem []byte, b *source.Budget) ([]byte, error) {
	if m.Method == zip.Store {
		at, err := m.DataOffset()
		if err != nil || at < 0 || m.UncompressedSize64 > uint64(len(mem)) ||
			at > int64(len(mem))-int64(m.UncompressedSize64) {
			return nil, errors.Join(fmt.Errorf("%w: a member lies outside", ErrFormat), err)
		}
		return mem[at : at+int64(m.UncompressedSize64)], nil
	}
	r, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &source.Spool{Budget: b}
	f.spools = append(f.spools, s)
	if m.UncompressedSize64 > uint64(len(mem))*1100 { // no archive of deflate holds more
		return nil, fmt.Errorf("%w: %d bytes in so small an archive", ErrFormat, m.UncompressedSize64)
	}
	if _, err := io.Copy(s, io.LimitReader(r, int64(m.UncompressedSize64))); err != nil {
		return nil, err
	}
	return s.Bytes()
}

// readOld reads the layout before torch 1.6: pickles of version, sizes, value and keys of storages, then the storages.
func (f *File) readOld(mem []byte) error {
	if !pickle.LooksLikeTorch(mem) {
		return ErrFormat
	}
	in := &source.Counting{R: io.NewSectionReader(f.raw, 0, f.raw.Size)}
	r := bufio.NewReaderSize(in, 1<<16)
	var part [5]any
	for i := range part {
		var err error
		if part[i], err = pickle.Read(r, names, f.ledger); err != nil {
			return err
		}
	}
	if d, ok := part[2].(*pickle.Dict); ok {
		if little, ok := d.Get("little_endian"); ok && little != true {
			return errors.New("its numbers are big-endian, which is not supported: save it on another machine")
		}
	}
	keys, ok := part[4].(*pickle.List)
	if !ok {
		return fmt.Errorf("%w: it has no list of storages", ErrFormat)
	}
	f.Value = part[3]
	at := in.N - int64(r.Buffered())
	sizes := map[string]int64{}
	elements(f.Value, sizes)
	for _, k := range keys.Items {
		key, ok := k.(string)
		if !ok || at > int64(len(mem))-8 {
			return fmt.Errorf("%w: it is cut short before storage %v", ErrFormat, k)
		}
		n := binary.LittleEndian.Uint64(mem[at:])
		at += 8
		size := sizes[key]
		if size == 0 {
			return fmt.Errorf("%w: nothing says what is in storage %s", ErrFormat, key)
		}
		if n > uint64(int64(len(mem))-at)/uint64(size) {
			return fmt.Errorf("%w: storage %s is cut short", ErrFormat, key)
		}
		f.storages[key] = mem[at : at+int64(n)*size]
		at += int64(n) * size
	}
	return nil
}

// elements finds the bytes of an element of each storage that a value refers to.
func elements(v any, sizes map[string]int64) {
	seen, depth := map[any]bool{}, 0
	var walk func(v any)
	each := func(list []any) {
		if len(list) == 0 || seen[&list[0]] || depth > 1000 { // a shared list is visited once
			return
		}
		seen[&list[0]] = true
		depth++
		for _, x := range list {
			walk(x)
		}
		depth--
	}
	walk = func(v any) {
		switch x := v.(type) {
		case *pickle.Persistent:
			if key, d, _, ok := storage(x); ok {
				dtype, _ := dtypeOf(d)
				sizes[key] = dtype.Size()
			}
		case *pickle.Dict:
			each(x.Keys)
			each(x.Values)
		case *pickle.List:
			each(x.Items)
		case pickle.Tuple:
			each(x)
		case *pickle.Object:
			if !seen[x] {
				seen[x] = true
				each(x.Args)
				each(x.Items)
				each([]any{x.State})
			}
		}
	}
	walk(v)
}

// dtypeOf returns a type of torch by its name or that of its storages; bools says that its elements are booleans.
func dtypeOf(name string) (d unified.DType, bools bool) {
	switch name {
	case "bool", "BoolStorage":
		return unified.Uint8, true
	case "UntypedStorage":
		return unified.Uint8, false
	}
	return unified.ParseTorch(name), false
}

// storage returns the key of a storage, the name of its type, and how many elements in a view of it begins.
func storage(p *pickle.Persistent) (key, dtype string, first int64, ok bool) {
	t, _ := p.ID.(pickle.Tuple)
	if len(t) < 5 || pickle.Text(t[0]) != "storage" {
		return "", "", 0, false
	}
	name, _ := t[1].(pickle.Name)
	dtype = string(name)[strings.LastIndexByte(string(name), '.')+1:]
	if d, _ := dtypeOf(dtype); d == unified.Invalid {
		return "", "", 0, false
	}
	if len(t) > 5 {
		if view, _ := t[5].(pickle.Tuple); len(view) == 3 {
			first, _ = view[1].(int64)
		}
	}
	return pickle.Text(t[2]), dtype, first, true
}
