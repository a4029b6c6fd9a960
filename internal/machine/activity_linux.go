package machine

import "golang.org/x/sys/unix"

// processors returns which processors the process may run on; nil for all.
func processors() map[int]bool {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	of := map[int]bool{}
	for i := range len(set) * 64 {
		if set.IsSet(i) {
			of[i] = true
		}
	}
	return of
}
