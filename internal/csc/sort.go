package csc

// SortKeys sorts keys by their low nbits, and numbers (nil, or of the same length) with them, keeping the order of
// equal keys. tmpKeys and tmpNumbers have room for as many. The sorted arrays are keys and numbers.
//
// Method: radix sort from the least digit on, of digits that keep the counts in the first-level cache.
func SortKeys[N Number](keys, tmpKeys []uint64, numbers, tmpNumbers []N, nbits int) {
	if len(keys) <= 40 {
		insertionSort(keys, numbers)
		return
	}
	width := 11
	if len(keys) < 1<<12 {
		width = 8
	}
	digits := (nbits + width - 1) / width
	width = (nbits + digits - 1) / max(digits, 1)
	var counts [1 << 11]uint32
	from, to, fromN, toN := keys, tmpKeys[:len(keys)], numbers, tmpNumbers[:len(numbers)]
	for d := range digits {
		cnt := counts[:1<<width]
		if !countDigits(from, d*width, cnt) {
			continue // all the same
		}
		if numbers == nil {
			scatterKeys(from, to, d*width, cnt)
		} else {
			scatterPairs(from, to, fromN, toN, d*width, cnt)
		}
		from, to, fromN, toN = to, from, toN, fromN
	}
	if &from[0] != &keys[0] {
		copy(keys, from)
		copy(numbers, fromN)
	}
}

// countDigits sets cnt to where the keys of each digit begin. It reports whether there are several digits.
func countDigits(keys []uint64, shift int, cnt []uint32) bool {
	clear(cnt)
	mask := uint64(len(cnt) - 1)
	for _, k := range keys {
		cnt[k>>shift&mask]++
	}
	if cnt[keys[0]>>shift&mask] == uint32(len(keys)) {
		return false
	}
	at := uint32(0)
	for i, n := range cnt {
		cnt[i] = at
		at += n
	}
	return true
}

func scatterKeys(from, to []uint64, shift int, at []uint32) {
	mask := uint64(len(at) - 1)
	for _, k := range from {
		d := k >> shift & mask
		to[at[d]] = k
		at[d]++
	}
}

func scatterPairs[N Number](from, to []uint64, fromN, toN []N, shift int, at []uint32) {
	mask := uint64(len(at) - 1)
	for i, k := range from {
		d := k >> shift & mask
		p := at[d]
		at[d] = p + 1
		to[p] = k
		toN[p] = fromN[i]
	}
}

func insertionSort[N Number](keys []uint64, numbers []N) {
	for i := 1; i < len(keys); i++ {
		k, j := keys[i], i
		for j > 0 && keys[j-1] > k {
			keys[j] = keys[j-1]
			j--
		}
		keys[j] = k
		if numbers != nil && j < i {
			n := numbers[i]
			copy(numbers[j+1:i+1], numbers[j:i])
			numbers[j] = n
		}
	}
}
