// Package enum names the values of options that are one of a few words. Package option reads them by these names.
package enum

import "fmt"

// Name returns the name of a value, which is its index among the names.
func Name[E ~uint8](names []string, value E) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}
