package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Form is how the messages of one side of a map begin: fixed bytes, then a number from Low to High.
type Form struct {
	Fixed     string // bytes
	Low, High uint32
	// Width is the number's size in bytes: 1, 2 or 4. It is 0 if none is stated: the number is the ID beside the payload
	// in a protocol that has one, else a byte.
	Width     int
	BigEndian bool
}

// maxFixed bounds the fixed bytes, and maxRange the numbers of a Form.
const (
	maxFixed = 16
	maxWidth = 4
	maxRange = 1 << 16
)

var errForm = errors.New("not the form of a message")

// widths has the forms of a number, by their names.
var widths = map[string]Form{
	"u8": {Width: 1}, "u16le": {Width: 2}, "u16be": {Width: 2, BigEndian: true},
	"u32le": {Width: 4}, "u32be": {Width: 4, BigEndian: true},
}

// ParseForm reads numbers with spaces between them, each with its width behind a colon, or a byte: "7", "0x86 7:u16le".
// The last one may be a range: "100-199".
func ParseForm(text string) (Form, error) {
	words := strings.Fields(text)
	var fixed []byte
	for i, word := range words {
		f, ok := parseNumber(word)
		last := i == len(words)-1
		if len(words) > 1 {
			f = f.AsByte()
		}
		switch {
		case !ok || f.High > f.limit() || f.High-f.Low >= maxRange || len(fixed) > maxFixed || !last && f.Low != f.High:
			return Form{}, errForm
		case last:
			f.Fixed = string(fixed)
			return f, nil
		}
		fixed = f.Append(fixed, f.Low)
	}
	return Form{}, errForm
}

func parseNumber(word string) (f Form, ok bool) {
	word, width, stated := strings.Cut(word, ":")
	if stated {
		if f, ok = widths[width]; !ok {
			return f, false
		}
	}
	first, last, isRange := strings.Cut(word, "-")
	if !isRange {
		last = first
	}
	var okLow, okHigh bool
	f.Low, okLow = parseUint(first)
	f.High, okHigh = parseUint(last)
	return f, okLow && okHigh && f.Low <= f.High
}

// parseUint reads a decimal number, or a hexadecimal one that begins with 0x.
func parseUint(text string) (uint32, bool) {
	base := 10
	if digits, isHex := strings.CutPrefix(text, "0x"); isHex {
		text, base = digits, 16
	}
	n, err := strconv.ParseUint(text, base, 32)
	return uint32(n), err == nil
}

// limit returns the largest number that the width holds. An ID beside the payload has 16 bits.
func (f *Form) limit() uint32 {
	switch f.Width {
	case 1:
		return math.MaxUint8
	case 4:
		return math.MaxUint32
	}
	return math.MaxUint16
}

// IsAlone reports whether the form is a number without a width, which an ID beside the payload can have.
func (f *Form) IsAlone() bool { return f.Width == 0 }

// AsByte returns the form with a byte for a number without a width.
func (f Form) AsByte() Form {
	f.Width = max(f.Width, 1)
	return f
}

// Len returns the bytes before the payload.
func (f *Form) Len() int { return len(f.Fixed) + f.Width }

// Append appends the bytes before the payload, with number n.
func (f *Form) Append(b []byte, n uint32) []byte {
	b = append(b, f.Fixed...)
	switch {
	case f.Width == 1:
		return append(b, byte(n))
	case f.Width == 2 && f.BigEndian:
		return binary.BigEndian.AppendUint16(b, uint16(n))
	case f.Width == 2:
		return binary.LittleEndian.AppendUint16(b, uint16(n))
	case f.BigEndian:
		return binary.BigEndian.AppendUint32(b, n)
	}
	return binary.LittleEndian.AppendUint32(b, n)
}

// Number reads the number at the front of a message with a width. It may be outside of Low and High. It reports false
// if the message begins otherwise.
func (f *Form) Number(b []byte) (n uint32, ok bool) {
	if len(b) < f.Len() || string(b[:len(f.Fixed)]) != f.Fixed {
		return 0, false
	}
	switch b = b[len(f.Fixed):]; {
	case f.Width == 1:
		return uint32(b[0]), true
	case f.Width == 2 && f.BigEndian:
		return uint32(binary.BigEndian.Uint16(b)), true
	case f.Width == 2:
		return uint32(binary.LittleEndian.Uint16(b)), true
	case f.BigEndian:
		return binary.BigEndian.Uint32(b), true
	}
	return binary.LittleEndian.Uint32(b), true
}

// Has reports whether a number is one of the form.
func (f *Form) Has(n uint32) bool { return f.Low <= n && n <= f.High }

// Count returns how many numbers the form has.
func (f *Form) Count() int { return int(f.High-f.Low) + 1 }

// IsLike reports whether two forms differ only in their numbers.
func (f *Form) IsLike(o *Form) bool {
	return f.Fixed == o.Fixed && f.Width == o.Width && f.BigEndian == o.BigEndian
}

// Meets reports whether a message may have both forms at the same length.
func (f *Form) Meets(o *Form) bool {
	switch {
	case f.IsLike(o):
		return f.Low <= o.High && o.Low <= f.High
	case f.IsAlone() || o.IsAlone() || f.Len() != o.Len():
		return false
	case f.Count() > o.Count():
		return o.Meets(f)
	}
	if common := min(len(f.Fixed), len(o.Fixed)); f.Fixed[:common] != o.Fixed[:common] {
		return false
	}
	var b [maxFixed + maxWidth]byte
	for n := uint64(f.Low); n <= uint64(f.High); n++ {
		if m, ok := o.Number(f.Append(b[:0], uint32(n))); ok && o.Has(m) {
			return true
		}
	}
	return false
}

// FirstBytes returns the lowest and the highest first byte of a form with a width.
func (f *Form) FirstBytes() (low, high byte) {
	top := 8 * (f.Width - 1) // bits below the first byte
	switch {
	case f.Fixed != "":
		return f.Fixed[0], f.Fixed[0]
	case f.Width > 1 && !f.BigEndian:
		if top = 0; f.Low>>8 != f.High>>8 {
			return 0, math.MaxUint8
		}
	}
	return byte(f.Low >> top), byte(f.High >> top)
}

// String returns the form as ParseForm reads it.
func (f Form) String() string {
	var words []string
	for _, b := range []byte(f.Fixed) {
		words = append(words, fmt.Sprintf("0x%02x", b))
	}
	format, name := "%d", ""
	for of, form := range widths {
		if form.Width == f.Width && form.BigEndian == f.BigEndian && f.Width > 1 {
			name = ":" + of
		}
	}
	if f.Width == 1 {
		format = "0x%02x"
	}
	text := fmt.Sprintf(format, f.Low)
	if f.High > f.Low {
		text += fmt.Sprintf("-"+format, f.High)
	}
	return strings.Join(slices.Concat(words, []string{text + name}), " ")
}
