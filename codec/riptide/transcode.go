package riptide

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"tidegate/codec"
)

// Verdict is a Transcoder's decision on a message.
type Verdict uint8

// Verdicts. Only Transcoded and Passed come with a payload to send.
const (
	Transcoded Verdict = iota // by its schema
	Passed                    // no schema: unchanged
	Dropped                   // no schema
	Unfit                     // the message does not fit its schema, or the other dialect cannot express it
	verdictCount
)

var verdictNames = [verdictCount]string{"transcoded", "passed", "dropped", "unfit"}

// String returns the verdict's name as in metrics.
func (v Verdict) String() string {
	if v < verdictCount {
		return verdictNames[v]
	}
	return "unknown"
}

// Transcoder translates the messages of one direction from one dialect to the other, each by the schema of its message
// ID. It is immutable and safe for concurrent use.
type Transcoder struct {
	from, to   Version
	schemas    map[uint16]Schema
	undeclared Verdict
}

// NewTranscoder returns a Transcoder with a schema for each declared message ID. It drops or passes other messages:
// those with other IDs, and notify messages, which have no ID.
func NewTranscoder(from, to Version, schemas map[uint16]Schema, dropUndeclared bool) *Transcoder {
	t := &Transcoder{from: from, to: to, schemas: maps.Clone(schemas), undeclared: Passed}
	if dropUndeclared {
		t.undeclared = Dropped
	}
	return t
}

// Transcode returns the bytes to send in place of m's payload. They are appended to dst and returned without dst's
// earlier content. After Passed they are m's own payload. Transcode does not allocate if dst has the room that
// Schema.Transcode needs.
func (t *Transcoder) Transcode(dst []byte, m *codec.Message) (payload []byte, pad uint8, v Verdict) {
	schema, declared := t.schemas[m.ID]
	switch {
	case m.HasID && declared:
		out, pad, err := schema.Transcode(dst, t.from, t.to, m.Payload, m.Pad)
		if err != nil {
			return nil, 0, Unfit
		}
		return out[len(dst):], pad, Transcoded
	case t.undeclared == Dropped:
		return nil, 0, Dropped
	default:
		return m.Payload, m.Pad, Passed
	}
}

// Transcode reads a payload's values in one dialect and appends them to dst in the other. It does not allocate if dst
// has room for the result and 8 bytes more. The result exceeds the payload by at most a byte for each bool and length
// in the schema.
//
// Data with the same form in both dialects does not change a bit, even a NaN or a string of invalid UTF-8. Some values
// have several forms (a bool of 2, a number with needless bytes). They become the library's form. If there is an
// error, it is one of this package's, and out is dst.
func (s Schema) Transcode(dst []byte, from, to Version, payload []byte, pad uint8) (
	out []byte, outPad uint8, err error,
) {
	r, w := NewReader(from, payload, pad), NewWriter(to, dst)
	for i := range s {
		s[i].transcode(&r, &w)
	}
	if err = r.Finish(); err != nil {
		return dst, 0, err
	}
	if out, outPad, err = w.Finish(); err != nil {
		return dst, 0, err
	}
	return out, outPad, nil
}

func (t *Type) transcode(r *Reader, w *Writer) {
	n := t.count
	switch {
	case n == lengthFirst:
		n = r.Length(t.bits)
		w.Length(n)
	case n == notArray && t.form == boolean:
		w.Bool(r.Bool())
		return
	case n == notArray:
		n = 1
	}
	// The payload bounds every loop, even for a large count in the schema.
	if !r.has(n * t.bits) {
		return
	}
	switch t.form {
	case numeric:
		copyBits(r, w, n*t.bits)
	case boolean:
		copyBits(r, w, n)
		r.align()
		w.align()
	case text:
		for range n {
			size := r.Length(8)
			w.Length(size)
			copyBits(r, w, 8*size)
		}
	case varint:
		for range n {
			w.VarULong(r.VarULong())
		}
	case bitField:
		for range n {
			w.Bits(r.Bits(t.bits), t.bits)
		}
	}
}

// copyBits copies n bits, which the payload has. Numbers, bytes and packed bools are the same in both dialects.
func copyBits(r *Reader, w *Writer, n int) {
	for ; n > 64; n -= 64 {
		w.fixed(r.fixed(64), 64)
	}
	w.fixed(r.fixed(n), n)
}

// Schema lists the types of a message's values in order. It is immutable and safe for concurrent use.
type Schema []Type

// Type is the type of a value, or of an array of values.
type Type struct {
	element
	count int // number of an array's elements, or notArray or lengthFirst
}

// Values of Type.count that are not a number of elements.
const (
	notArray    = 0
	lengthFirst = -1 // the array's length is on the wire
)

// element is the type of one value.
type element struct {
	name string
	form form
	bits int // size of one value on the wire; the least size if it varies
}

// form says how a value is written on the wire.
type form uint8

const (
	numeric  form = iota // the same bits in both dialects
	boolean              // a bit, or in Riptide 2.0 a byte; in arrays always a bit
	text                 // a length and bytes
	varint               // a number of variable length; Riptide 2.1+
	bitField             // bits that form no type of C#; Riptide 2.1+
)

// bitsPrefix begins the name of a bit field; the number of bits follows.
const bitsPrefix = "bits:"

var elements = [...]element{
	{"byte", numeric, 8}, {"sbyte", numeric, 8}, {"bool", boolean, 1}, {"short", numeric, 16}, {"ushort", numeric, 16},
	{"int", numeric, 32}, {"uint", numeric, 32}, {"long", numeric, 64}, {"ulong", numeric, 64}, {"float", numeric, 32},
	{"double", numeric, 64}, {"string", text, 8}, {"vector2", numeric, 64}, {"vector3", numeric, 96},
	{"quaternion", numeric, 128}, {"varulong", varint, 8}, {"varlong", varint, 8},
}

// ParseSchema reads the names of types. C# has byte, sbyte, bool, short, ushort, int, uint, long, ulong, float, double
// and string. Unity has vector2, vector3 and quaternion. Riptide 2.1 has varulong, varlong and bits:N, which means N
// bits, 1 to 64. A name with [] behind it is an array that begins with its length. A name with [N] is an array of N
// elements, 1 to 32767, without a length. The error names every fault.
func ParseSchema(names []string) (Schema, error) {
	s := make(Schema, len(names))
	var faults []error
	for i, name := range names {
		var err error
		if s[i], err = parseType(name); err != nil {
			faults = append(faults, fmt.Errorf("type %d: %w", i+1, err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return s, nil
}

// Check returns an error that names the types that the dialect lacks.
func (s Schema) Check(v Version) error {
	var faults []error
	for i, t := range s {
		if v == V20 && (t.form == varint || t.form == bitField) {
			faults = append(faults, fmt.Errorf("type %d: %s: not in %s", i+1, t, names[v]))
		}
	}
	return errors.Join(faults...)
}

// String returns the type's name as ParseSchema reads it.
func (t Type) String() string {
	switch t.count {
	case notArray:
		return t.name
	case lengthFirst:
		return t.name + "[]"
	default:
		return fmt.Sprintf("%s[%d]", t.name, t.count)
	}
}

func parseType(name string) (Type, error) {
	base, count := name, notArray
	if inner, ok := strings.CutSuffix(name, "]"); ok {
		var length string
		if base, length, ok = strings.Cut(inner, "["); !ok {
			return Type{}, fmt.Errorf("%q: want a [ before the ]", name)
		}
		if count = lengthFirst; length != "" {
			if count, ok = parseCount(length, maxLength); !ok {
				return Type{}, fmt.Errorf("%q: want [] or a number of elements from 1 to %d, for example [3]", name, maxLength)
			}
		}
	}
	e, err := parseElement(base)
	return Type{e, count}, err
}

func parseElement(name string) (element, error) {
	if size, ok := strings.CutPrefix(name, bitsPrefix); ok {
		bits, ok := parseCount(size, 64)
		if !ok {
			return element{}, fmt.Errorf("%q: want a number of bits from 1 to 64, for example bits:3", name)
		}
		return element{name, bitField, bits}, nil
	}
	known := make([]string, len(elements))
	for i, e := range elements {
		if e.name == name {
			return e, nil
		}
		known[i] = e.name
	}
	return element{}, fmt.Errorf("%q: want %s or bits:N, and [] or [N] behind it for an array", name,
		strings.Join(known, ", "))
}

// parseCount reads a number from 1 to most, which has only digits.
func parseCount(s string, most int) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= most && strconv.Itoa(n) == s
}
