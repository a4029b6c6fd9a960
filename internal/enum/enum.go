// Package enum names the values of options that are one of a few words.
package enum

import (
	"fmt"
	"strings"
)

// Name returns the name of a value, which is its index among the names.
func Name[E ~uint8](names []string, value E) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown(%d)", value)
}

// Parse sets *to to the value of that name. An error wraps invalid, and says what the option is and what it may be.
func Parse[E ~uint8](invalid error, what string, names []string, text []byte, to *E) error {
	for i, name := range names {
		if name == string(text) {
			*to = E(i)
			return nil
		}
	}
	return fmt.Errorf("%w: %s %q: must be one of %s", invalid, what, text, strings.Join(names, ", "))
}
