package config

import (
	"reflect"
	"strconv"
	"strings"
)

// Range is a number from 0 to 65535, or two numbers with a "-" between them, both included: "7", "100-199",
// "0x80-0xff".
type Range string

var rangeType = reflect.TypeFor[Range]()

// UnmarshalText reads a range.
func (r *Range) UnmarshalText(text []byte) error {
	*r = Range(text)
	if _, _, ok := r.parse(); !ok {
		return errUnit
	}
	return nil
}

// Bounds returns the lowest and the highest number of the range.
func (r Range) Bounds() (low, high uint16) {
	low, high, _ = r.parse() // UnmarshalText has checked it
	return low, high
}

func (r Range) parse() (low, high uint16, ok bool) {
	first, last, two := strings.Cut(string(r), "-")
	if !two {
		last = first
	}
	low, errLow := parseNumber(first)
	high, errHigh := parseNumber(last)
	return low, high, errLow == nil && errHigh == nil && low <= high
}

func parseNumber(text string) (uint16, error) {
	base := 10
	if digits, hex := strings.CutPrefix(text, "0x"); hex {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 16)
	return uint16(n), err
}
