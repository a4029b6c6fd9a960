//go:build !race

package faults

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// disk is a log of all that was done to a directory, from which the disk is made as a loss of power may leave it.
//
// What was synced is there. Of what was written to a file since, all, none or a part is, with the last piece torn. Of
// the names made, removed and changed in a directory since it was synced, any first ones are; a renaming or an exchange
// across two directories has happened in both or in neither.
type disk struct {
	root    *node
	now     map[*node]map[string]*node // names in directories
	initial map[*node]map[string]*node
	log     []event
}

// node is a file or a directory.
type node struct {
	dir  bool
	data []byte // of a file at the beginning
}

// event is one that was logged: of names (dirs is not nil), of a file's contents, or a sync.
type event struct {
	dirs  []*node // whose names it changes
	apply func(names map[*node]map[string]*node)

	file   *node
	offset int64
	data   []byte
	resize bool // to offset

	synced *node
}

// newDisk takes in a directory, all of which is on the disk.
func newDisk(path string) (*disk, error) {
	d := &disk{initial: map[*node]map[string]*node{}}
	err := d.scan(path, &d.root)
	d.now = clone(d.initial)
	return d, err
}

func (d *disk) scan(path string, into **node) error {
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	n := &node{dir: st.IsDir()}
	*into = n
	if !n.dir {
		n.data, err = os.ReadFile(path)
		return err
	}
	d.initial[n] = map[string]*node{}
	list, err := os.ReadDir(path)
	for _, e := range list {
		var child *node
		err = errors.Join(err, d.scan(filepath.Join(path, e.Name()), &child))
		d.initial[n][e.Name()] = child
	}
	return err
}

func clone(names map[*node]map[string]*node) map[*node]map[string]*node {
	c := make(map[*node]map[string]*node, len(names))
	for dir, entries := range names {
		c[dir] = make(map[string]*node, len(entries))
		for name, child := range entries {
			c[dir][name] = child
		}
	}
	return c
}

// find returns what a path below the root stands for now, and the directory and name that it ends in.
func (d *disk) find(path string) (n, parent *node, name string) {
	n = d.root
	for _, name = range strings.Split(path, "/") {
		if name != "." {
			parent, n = n, d.now[n][name]
		}
	}
	return n, parent, name
}

func (d *disk) names(apply func(names map[*node]map[string]*node), dirs ...*node) {
	apply(d.now)
	d.log = append(d.log, event{dirs: dirs, apply: apply})
}

// in returns the names in a directory, which may itself not have a name.
func in(names map[*node]map[string]*node, dir *node) map[string]*node {
	if names[dir] == nil {
		names[dir] = map[string]*node{}
	}
	return names[dir]
}

// make logs a new file or directory.
func (d *disk) make(path string, dir bool) {
	old, parent, name := d.find(path)
	if old != nil || parent == nil {
		return
	}
	n := &node{dir: dir}
	d.names(func(names map[*node]map[string]*node) {
		in(names, parent)[name] = n
		if dir {
			in(names, n)
		}
	}, parent)
}

func (d *disk) remove(path string) {
	_, parent, name := d.find(path)
	d.names(func(names map[*node]map[string]*node) { delete(names[parent], name) }, parent)
}

// rename logs that a has got the name b, and b the name a where both are exchanged.
func (d *disk) rename(a, b string, exchange bool) {
	x, from, nameA := d.find(a)
	y, to, nameB := d.find(b)
	d.names(func(names map[*node]map[string]*node) {
		delete(names[from], nameA)
		if exchange {
			in(names, from)[nameA] = y
		}
		in(names, to)[nameB] = x
	}, from, to)
}

func (d *disk) write(path string, offset int64, data []byte) {
	n, _, _ := d.find(path)
	d.log = append(d.log, event{file: n, offset: offset, data: data})
}

func (d *disk) resize(path string, size int64) {
	n, _, _ := d.find(path)
	d.log = append(d.log, event{file: n, offset: size, resize: true})
}

func (d *disk) sync(path string) {
	n, _, _ := d.find(path)
	d.log = append(d.log, event{synced: n})
}

// survivors says which events about names are on the disk: those before a point in time, for each directory.
type survivors map[*node]int

// least returns what must be there when the power goes after the first n events.
func (d *disk) least(n int) survivors {
	s := survivors{}
	for i, e := range d.log[:n] {
		if e.synced != nil && e.synced.dir {
			s[e.synced] = i
		}
	}
	for changed := true; changed; { // what happens in two directories happens in both
		changed = false
		for i, e := range d.log[:n] {
			for _, dir := range e.dirs {
				for _, other := range e.dirs {
					if i < s[dir] && i >= s[other] {
						s[other], changed = i+1, true
					}
				}
			}
		}
	}
	return s
}

// first returns the survivors where all directories keep the first of their events up to point k.
func (d *disk) first(n, k int) survivors {
	s := survivors{}
	for _, e := range d.log[:n] {
		for _, dir := range e.dirs {
			s[dir] = k
		}
	}
	return s
}

// any draws survivors: each directory has a point of its own.
func (d *disk) any(n int, r *rand.Rand) survivors {
	least, s := d.least(n), survivors{}
	for _, e := range d.log[:n] {
		for _, dir := range e.dirs {
			if _, ok := s[dir]; !ok {
				s[dir] = least[dir] + r.IntN(n-least[dir]+1)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i, e := range d.log[:n] {
			for _, dir := range e.dirs {
				for _, other := range e.dirs {
					if i >= s[dir] && i < s[other] {
						s[other], changed = i, true
					}
				}
			}
		}
	}
	return s
}

// fate says what becomes of what was written to a file and not synced.
type fate uint8

const (
	dropped fate = iota
	kept
	torn   // a part of it is there
	zeroed // its length is there, its contents are not
	fates
)

// contents returns a file's bytes when the power went after the first n events.
func (d *disk) contents(f *node, n int, fate fate, r *rand.Rand) []byte {
	data, synced := bytes.Clone(f.data), 0
	var since []event
	for i, e := range d.log[:n] {
		if e.synced == f {
			synced = i
		}
	}
	for i, e := range d.log[:n] {
		switch {
		case e.file != f:
		case i < synced:
			data = e.put(data, len(e.data))
		default:
			since = append(since, e)
		}
	}
	if fate == dropped || len(since) == 0 {
		return data
	}
	last := len(since) - 1
	if fate == torn {
		last = r.IntN(len(since))
	}
	for _, e := range since[:last] {
		data = e.put(data, len(e.data))
	}
	length := len(since[last].data)
	if fate == torn {
		length = r.IntN(length + 1)
	}
	before := len(data)
	data = since[last].put(data, length)
	if fate == zeroed {
		for i := min(before, len(data)); i < len(data); i++ {
			data[i] = 0
		}
	}
	return data
}

// put applies an event to a file's bytes, with the first bytes of what it wrote.
func (e *event) put(data []byte, length int) []byte {
	end := e.offset + int64(length)
	if grow := end - int64(len(data)); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	if e.resize {
		return data[:e.offset]
	}
	copy(data[e.offset:end], e.data[:length])
	return data
}

// restore makes the directory at path as the disk is when the power goes after the first n events. Without a fate, one
// is drawn for each file.
func (d *disk) restore(path string, n int, s survivors, fate fate, r *rand.Rand) error {
	names := clone(d.initial)
	for i, e := range d.log[:n] {
		if !slices.ContainsFunc(e.dirs, func(dir *node) bool { return i >= s[dir] }) && e.apply != nil {
			e.apply(names)
		}
	}
	return d.restoreDir(path, d.root, names, func(f *node) []byte {
		which := fate
		if which == fates {
			which = drawFate(r)
		}
		return d.contents(f, n, which, r)
	})
}

func (d *disk) restoreDir(path string, dir *node, names map[*node]map[string]*node, data func(*node) []byte) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for name, child := range names[dir] {
		at, err := filepath.Join(path, name), error(nil)
		if child.dir {
			err = d.restoreDir(at, child, names, data)
		} else {
			err = os.WriteFile(at, data(child), 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func drawFate(r *rand.Rand) fate { return fate(r.IntN(int(fates))) }
