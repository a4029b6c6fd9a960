package narrow

import (
	"fmt"
	"slices"
	"strings"
)

// Choices say which type columns are to have: each its own, or one for all others.
type Choices struct {
	all string
	of  map[string]string
}

// ParseChoices reads what an option says: types, as of "int4", and "column=type". Each must be allowed.
func ParseChoices(list []string, allowed []string) (c Choices, err error) {
	c.of = map[string]string{}
	for _, text := range list {
		column, name, one := strings.Cut(text, "=")
		if !one {
			column, name = "", text
		}
		_, twice := c.of[column]
		switch {
		case !slices.Contains(allowed, name):
			return c, fmt.Errorf("%q is none of %s", name, strings.Join(allowed, ", "))
		case one && column == "":
			return c, fmt.Errorf("%q names no column", text)
		case twice || !one && c.all != "":
			return c, fmt.Errorf("%q: its columns have a type already", text)
		case one:
			c.of[column] = name
		default:
			c.all = name
		}
	}
	return c, nil
}

// Any reports whether a type is chosen at all.
func (c Choices) Any() bool { return c.all != "" || len(c.of) > 0 }

// For returns the type that a column is to have; "" for its own.
func (c Choices) For(column string) string {
	if name, ok := c.of[column]; ok {
		return name
	}
	return c.all
}

// Missing returns a column that a type was chosen for, and that is not there; "" for none.
func (c Choices) Missing(there func(column string) bool) string {
	missing := ""
	for column := range c.of {
		if !there(column) && (missing == "" || column < missing) {
			missing = column
		}
	}
	return missing
}

// Names returns the names of all codes.
func Names() (list []string) {
	for _, c := range codes {
		list = append(list, c.Name)
	}
	return list
}
