// Package words formats figures for people, and finds the word that a person probably meant.
package words

import "fmt"

// Count formats a number of things: "1 byte", "2 bytes". The thing's name must be a regular noun.
func Count[T int | uint64](n T, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}
