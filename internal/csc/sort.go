package csc

// SortKeys sorts keys by their low nbits, and numbers (nil, or of the same length) with them, keeping the order of
// equal keys. tmpKeys and tmpNumbers have room for as many. The sorted arrays are keys and numbers.
//
// Method: radix sort from the least digit on, of digits that keep the counts in the first-level cache.
func SortKeys[K Key, N Number](keys, tmpKeys []K, numbers, tmpNumbers []N, nbits int) {
	sorted, sortedNumbers := Sorted(keys, tmpKeys, numbers, tmpNumbers, nbits)
	if len(keys) > 0 && &sorted[0] != &keys[0] {
		copy(keys, sorted)
		copy(numbers, sortedNumbers)
	}
}

// Key is what keys are.
type Key interface{ uint32 | uint64 }

// Sorted is SortKeys, but leaves the sorted keys and numbers where the last pass puts them: it returns either keys and
// numbers or tmpKeys and tmpNumbers, as long as keys.
func Sorted[K Key, N Number](keys, tmpKeys []K, numbers, tmpNumbers []N, nbits int) ([]K, []N) {
	switch {
	case len(keys) <= 40:
		insertionSort(keys, numbers)
		return keys, numbers
	case len(keys) < 1<<12:
		var counts [8 << 8]uint32
		return sortDigits(keys, tmpKeys, numbers, tmpNumbers, nbits, 8, counts[:])
	}
	var counts [6 << 11]uint32
	return sortDigits(keys, tmpKeys, numbers, tmpNumbers, nbits, 11, counts[:])
}

// sortDigits sorts by digits of at most width bits, the lowest first. counts are zeros: 1<<width for each digit.
func sortDigits[K Key, N Number](from, to []K, fromN, toN []N, nbits, width int, counts []uint32) ([]K, []N) {
	to, toN = to[:len(from)], toN[:len(fromN)]
	digits := (nbits + width - 1) / width
	if digits == 0 {
		return from, fromN
	}
	width = (nbits + digits - 1) / digits
	countDigits(from, digits, width, counts)
	for d := range digits {
		at := counts[d<<width : (d+1)<<width]
		if !begin(at, at[from[0]>>(d*width)&K(len(at)-1)], uint32(len(from))) {
			continue // all keys have the same digit
		}
		if fromN == nil {
			scatterKeys(from, to, d*width, at)
		} else {
			scatterPairs(from, to, fromN, toN, d*width, at)
		}
		from, to, fromN, toN = to, from, toN, fromN
	}
	return from, fromN
}

// countDigits counts the keys of each digit, two digits at a time.
func countDigits[K Key](keys []K, digits, width int, counts []uint32) {
	mask := K(1)<<width - 1
	of := func(d int) []uint32 { return counts[d<<width : (d+1)<<width] }
	d := 0
	for ; d+1 < digits; d += 2 {
		low, high, shift := of(d), of(d+1), d*width
		for _, k := range keys {
			k >>= shift
			low[k&mask]++
			high[k>>width&mask]++
		}
	}
	if d < digits {
		low, shift := of(d), d*width
		for _, k := range keys {
			low[k>>shift&mask]++
		}
	}
}

// begin makes counts where the keys of each digit begin. It reports whether there are several digits, which is not so
// where the first key's has all.
func begin(cnt []uint32, first, all uint32) bool {
	if first == all {
		return false
	}
	at := uint32(0)
	for i, n := range cnt {
		cnt[i] = at
		at += n
	}
	return true
}

func scatterKeys[K Key](from, to []K, shift int, at []uint32) {
	mask := K(len(at) - 1)
	for _, k := range from {
		d := k >> shift & mask
		to[at[d]] = k
		at[d]++
	}
}

func scatterPairs[K Key, N Number](from, to []K, fromN, toN []N, shift int, at []uint32) {
	mask := K(len(at) - 1)
	for i, k := range from {
		d := k >> shift & mask
		p := at[d]
		at[d] = p + 1
		to[p] = k
		toN[p] = fromN[i]
	}
}

func insertionSort[K Key, N Number](keys []K, numbers []N) {
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
