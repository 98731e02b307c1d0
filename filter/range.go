package filter

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseRange reads a number, or two with a - between them: "7", "100-199". Numbers are decimal, or hexadecimal after 0x.
func ParseRange(text string) (Range, error) {
	low, high, two := strings.Cut(text, "-")
	if !two {
		high = low
	}
	a, errLow := parseNumber(low)
	b, errHigh := parseNumber(high)
	if errLow != nil || errHigh != nil || a > b {
		return Range{}, fmt.Errorf("%q is neither a number nor a range such as 100-199", text)
	}
	return Range{a, b}, nil
}

func parseNumber(text string) (uint16, error) {
	base := 10
	if digits, hex := strings.CutPrefix(text, "0x"); hex {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 16)
	return uint16(n), err
}

// String is the range as ParseRange reads it.
func (r Range) String() string {
	if r.Low == r.High {
		return strconv.Itoa(int(r.Low))
	}
	return fmt.Sprintf("%d-%d", r.Low, r.High)
}
