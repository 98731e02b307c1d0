// Package enum reads and writes the names of enumerations: small numbers from 0, whose names are in a list.
package enum

import (
	"fmt"
	"slices"
	"strings"
)

// Name returns the name of a value, or "unknown".
func Name[E ~uint8](names []string, value E) string {
	if int(value) < len(names) {
		return names[value]
	}
	return "unknown"
}

// Parse sets value to the one that the text names. An empty name is that of no value.
func Parse[E ~uint8](names []string, text []byte, value *E) error {
	i := slices.Index(names, string(text))
	if i < 0 || len(text) == 0 {
		return fmt.Errorf("%q: want one of %s", text, strings.Join(names, ", "))
	}
	*value = E(i)
	return nil
}
