package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/units"
)

// choice is a type that accepts only a few words.
type choice interface{ Choices() []string }

func choices[T ~string](values ...T) []string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = string(v)
	}
	return text
}

// errUnit says that a text does not have the form of its type. The resulting fault names the right form.
var errUnit = errors.New("not of the right form")

type (
	// Duration is a time with its unit, as in protocol options.
	Duration = units.Duration
	// Size is a number of bytes with its unit.
	Size = units.Size
	// Key is 64 hexadecimal digits, or "file:" and the path of a file with them. Validation replaces the path by the
	// content.
	Key = units.Key
)

// Units of Size.
const (
	KiB = units.KiB
	MiB = units.MiB
	GiB = units.GiB
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

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

func milliseconds(n int) Duration { return Duration(time.Duration(n) * time.Millisecond) }
