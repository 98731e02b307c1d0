package top

import (
	"fmt"
	"math"
)

// number formats a rate or a count, in at most 6 characters.
func number(n float64) string {
	switch {
	case n < 0.05:
		return "0"
	case n < 10 && n != math.Trunc(n):
		return fmt.Sprintf("%.1f", n)
	case n < 99_999.5:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.0fk", n/1e3)
}

// milliseconds formats a round trip; "-" if it is unknown.
func milliseconds(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", ms)
}
