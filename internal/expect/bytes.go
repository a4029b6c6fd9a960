package expect

// Flips are the values of a byte of which one bit is another, from the lowest bit.
func Flips(was byte) []byte {
	values := make([]byte, 8)
	for bit := range values {
		values[bit] = was ^ 1<<bit
	}
	return values
}

// EachByte sets each byte of data to the values that other has for it, one at a time, calls try, and restores data.
func EachByte(data []byte, other func(at int, was byte) []byte, try func(at int)) {
	for at, was := range data {
		for _, data[at] = range other(at, was) {
			try(at)
		}
		data[at] = was
	}
}
