package config

import (
	"errors"
	"reflect"
	"slices"
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

// enumeration is a type of small numbers with words. The word of a value that cannot be stated is empty.
type enumeration interface {
	~uint8
	Names() []string
}

// Word is a word of an enumeration, or empty if none is stated.
type Word[E enumeration] string

// WordOf returns the word of a value.
func WordOf[E enumeration](value E) Word[E] { return Word[E](value.Names()[value]) }

// Choices lists the words of the configuration.
func (Word[E]) Choices() []string {
	return slices.DeleteFunc(slices.Clone(E(0).Names()), func(name string) bool { return name == "" })
}

// Is reports whether the word is that of a value.
func (w Word[E]) Is(value E) bool { return w == WordOf(value) }

// Value returns the value of the word, which has been checked. Without a word it is 0.
func (w Word[E]) Value() E { return E(max(slices.Index(E(0).Names(), string(w)), 0)) }

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
