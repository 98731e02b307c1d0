// Package units has the values of options that are written with a unit, or hidden: durations, sizes and keys.
package units

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// errUnit says that a text is no duration or size; the fault that it leads to names the right form.
var errUnit = errors.New("not a number with a unit")

// Duration is a time.Duration, never negative, written "1.5s", "250ms" or "2m".
type Duration time.Duration

// UnmarshalText reads the form that String writes, also with days at its front: "7d", "1d12h".
func (d *Duration) UnmarshalText(text []byte) error {
	rest, days := string(text), uint64(0)
	if before, after, found := strings.Cut(rest, "d"); found {
		var err error
		if days, err = strconv.ParseUint(before, 10, 16); err != nil {
			return errUnit
		}
		rest = cmp.Or(after, "0s")
	}
	parsed, err := time.ParseDuration(rest)
	if parsed += time.Duration(days) * day; err != nil || rest[0] == '-' || parsed < 0 {
		return errUnit
	}
	*d = Duration(parsed)
	return nil
}

// day is how long a duration must be twice over to be written with days: "24h", but "7d".
const day = 24 * time.Hour

// String is the shortest text that UnmarshalText reads back: "2m", not "2m0s".
func (d Duration) String() string {
	if days := time.Duration(d) / day; days > 1 {
		if rest := Duration(time.Duration(d) % day); rest != 0 {
			return fmt.Sprint(int64(days), "d", rest)
		}
		return fmt.Sprint(int64(days), "d")
	}
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Size is a number of bytes, written "512B", "64KiB", "2MiB" or "1GiB".
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
)

// sizeUnits is in the order in which a suffix is looked for: "B" also ends the others.
var sizeUnits = []struct {
	suffix string
	size   Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// UnmarshalText reads the form that String writes.
func (s *Size) UnmarshalText(text []byte) error {
	for _, unit := range sizeUnits {
		digits, found := strings.CutSuffix(string(text), unit.suffix)
		if !found {
			continue
		}
		count, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || count > uint64(math.MaxInt64/unit.size) {
			return errUnit
		}
		*s = Size(count) * unit.size
		return nil
	}
	return errUnit
}

// String is the size in the largest unit that leaves a whole number.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.suffix
		}
	}
	return "0B"
}

// Key is 32 bytes that are shared with others, as 64 hexadecimal digits. Its String hides it.
type Key string

// Bytes returns the key's bytes, or zeros if there is no valid key.
func (k Key) Bytes() (key [32]byte) {
	if b, err := hex.DecodeString(string(k)); err == nil && len(b) == len(key) {
		copy(key[:], b)
	}
	return key
}

// String hides the key.
func (k Key) String() string {
	if k == "" {
		return ""
	}
	return "(hidden)"
}
