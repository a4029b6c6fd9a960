package sparse

import "unsafe"

// streamRoom is how much of y waits in the cache before it is written past it: some rows, at least one.
const streamRoom = 16 << 10

// ownRun is a worker's own copy of the run, and rows of y that wait to be written. A line is written whole, so that it
// is not read first; a line that another part has too is written with ordinary stores.
type ownRun struct {
	spmmRun
	room    []byte         // lines; the first one goes where y continues
	all     unsafe.Pointer // y
	done    int            // bytes of y before those that wait
	waiting int            // bytes of room that are taken
	foreign int            // bytes of the first line that are another part's
	wide    []float32      // a row of x that has 16 bits, as plain reads it
	_       [cacheLine]byte
}

func (o *ownRun) init() {
	memory := make([]byte, streamRoom+3*cacheLine)
	at := -uintptr(unsafe.Pointer(&memory[0])) % cacheLine
	o.room = memory[at:][:streamRoom+2*cacheLine]
}

// begin starts a part at an offset of y, in bytes.
func (o *ownRun) begin(y unsafe.Pointer, at int) {
	o.all, o.done = y, at
	o.foreign = (int(uintptr(y)%cacheLine) + at) % cacheLine
	o.waiting = o.foreign
}

// next returns where the next row goes.
func (o *ownRun) next() uintptr { return uintptr(unsafe.Pointer(&o.room[o.waiting])) }

// flush adds n bytes to those that wait, and writes whole lines of them.
func (o *ownRun) flush(v variant, n int) {
	have := o.waiting + n
	if have < cacheLine {
		o.waiting = have
		return
	}
	from := 0
	if o.foreign > 0 {
		from = cacheLine
		o.write(from)
	}
	if lines := (have - from) &^ (cacheLine - 1); lines > 0 {
		streamLines(v, unsafe.Add(o.all, o.done), unsafe.Pointer(&o.room[from]), lines)
		o.done, from = o.done+lines, from+lines
	}
	o.waiting = copy(o.room, o.room[from:have])
}

// write writes the first line, up to a byte, with ordinary stores.
func (o *ownRun) write(to int) {
	if n := to - o.foreign; n > 0 {
		o.done += copy(unsafe.Slice((*byte)(unsafe.Add(o.all, o.done)), n), o.room[o.foreign:])
	}
	o.foreign = 0
}

// end writes the bytes that still wait.
func (o *ownRun) end() {
	o.write(o.waiting)
	o.all = nil
}
