// Package words puts figures into plain words, for people.
package words

import "fmt"

// Count is a number of things: "1 byte", "2 bytes". The thing's name is a regular noun.
func Count[T int | uint64](n T, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}
