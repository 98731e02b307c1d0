// Package words formats figures for people, and finds the word that a person probably meant.
package words

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Count formats a number of things: "1 byte", "2 bytes". The thing's name must be a regular noun.
func Count[T int | uint64](n T, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// elsewhere has the words of other programs for ours.
var elsewhere = map[string]string{
	"ip": "address", "max": "rate", "limit": "rate", "kind": "of", "type": "of", "listen": "address", "bind": "address",
	"backend": "upstream", "server": "servers", "timeout": "idle_timeout",
}

// Ours returns the known word for which other programs have another one.
func Ours(word string, known []string) (string, bool) {
	ours := elsewhere[strings.ToLower(word)]
	return ours, slices.Contains(known, ours)
}

// Nearest returns the known word that was probably meant: Ours, or one of which about a third of the letters differ.
func Nearest(word string, known []string) (string, bool) {
	if ours, ok := Ours(word, known); ok {
		return ours, true
	}
	best, bestDistance := "", math.MaxInt
	for _, candidate := range known {
		if d := Distance(strings.ToLower(word), candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best, bestDistance <= (len(best)+2)/3
}

// Distance is the Levenshtein distance: the number of bytes to insert, delete or replace to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
