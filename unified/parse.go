package unified

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseDevice reads "cpu" as -1, "cuda" as 0 and "cuda:2" as 2. It opens nothing.
func ParseDevice(name string) (ordinal int, err error) {
	switch rest, numbered := strings.CutPrefix(name, "cuda:"); {
	case name == "cpu":
		return -1, nil
	case name == "cuda":
		return 0, nil
	case numbered:
		if n, err := strconv.ParseUint(rest, 10, 16); err == nil {
			return int(n), nil
		}
	}
	return 0, fmt.Errorf("unknown device %q: give cpu, cuda, or cuda and a number such as cuda:0", name)
}
