package words

import (
	"math"
	"strings"
)

// Nearest returns the known word that was probably meant. About a third of its letters may differ.
func Nearest(word string, known []string) (string, bool) {
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
