package record

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
)

// Faults of a record.
var (
	errCut   = errors.New("it is cut off")
	errForm  = errors.New("an item has a form that records do not have")
	errRange = errors.New("a number is out of range")
	errTwice = errors.New("a field is there twice")
	errMany  = errors.New("too many elements, or too many levels")
)

// reader reads the items of a record.
type reader struct {
	b     []byte // the rest
	depth int    // levels of lists and maps around the next item
}

// head reads an item's first byte and its argument. For a float the argument has the bits.
func (r *reader) head() (major, first byte, n uint64, err error) {
	if len(r.b) == 0 {
		return 0, 0, 0, errCut
	}
	first = r.b[0]
	major, n = first&majorSimple, uint64(first&^majorSimple)
	r.b = r.b[1:]
	if n < smallest {
		return major, first, n, nil
	}
	if n > maxArgument || major == majorTag {
		return 0, 0, 0, errForm
	}
	size := 1 << (n - argument8)
	if len(r.b) < size {
		return 0, 0, 0, errCut
	}
	switch n {
	case argument8:
		n = uint64(r.b[0])
	case argument16:
		n = uint64(binary.BigEndian.Uint16(r.b))
	case argument32:
		n = uint64(binary.BigEndian.Uint32(r.b))
	default:
		n = binary.BigEndian.Uint64(r.b)
	}
	r.b = r.b[size:]
	return major, first, n, nil
}

// is reads the head of an item of a major type. Null stands for the zero value.
func (r *reader) is(major byte) (n uint64, null bool, err error) {
	got, first, n, err := r.head()
	switch {
	case err != nil:
		return 0, false, err
	case first == cborNull:
		return 0, true, nil
	case got != major:
		return 0, false, errForm
	}
	return n, false, nil
}

// cut returns the next n bytes.
func (r *reader) cut(n uint64) ([]byte, error) {
	if n > uint64(len(r.b)) {
		return nil, errCut
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b, nil
}

// enter begins a list or map. Each element has a byte at least, and there are most of them.
func (r *reader) enter(n uint64, most int) error {
	switch r.depth++; {
	case n > uint64(most) || r.depth > maxDepth:
		return errMany
	case n > uint64(len(r.b)):
		return errCut
	}
	return nil
}

// skip skips an item.
func (r *reader) skip() error {
	major, _, n, err := r.head()
	if err != nil {
		return err
	}
	most := MaxElements
	switch major {
	case majorTag:
		return errForm
	case majorBytes, majorText:
		_, err = r.cut(n)
		return err
	case majorMap:
		most = maxFields
		n = min(n, math.MaxUint64/2) * 2
		most *= 2
	case majorList:
	default:
		return nil
	}
	if err := r.enter(n, most); err != nil {
		return err
	}
	for range n {
		if err := r.skip(); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

func readBool(r *reader, v reflect.Value) error {
	_, first, _, err := r.head()
	switch {
	case err != nil:
		return err
	case first == cborTrue || first == cborFalse || first == cborNull:
		v.SetBool(first == cborTrue)
		return nil
	}
	return errForm
}

func readUint(r *reader, v reflect.Value) error {
	n, _, err := r.is(majorUint)
	if err == nil && v.OverflowUint(n) {
		err = errRange
	}
	if err == nil {
		v.SetUint(n)
	}
	return err
}

func readInt(r *reader, v reflect.Value) error {
	major, first, n, err := r.head()
	switch {
	case err != nil:
		return err
	case first == cborNull:
		n = 0
	case major != majorUint && major != majorNegative:
		return errForm
	}
	whole := int64(n)
	if major == majorNegative {
		whole = -1 - whole
	}
	if n > math.MaxInt64 || v.OverflowInt(whole) {
		return errRange
	}
	v.SetInt(whole)
	return nil
}

func readFloat(r *reader, v reflect.Value) error {
	_, first, n, err := r.head()
	switch {
	case err != nil:
		return err
	case first == cborFloat64:
		v.SetFloat(math.Float64frombits(n))
	case first == cborFloat32:
		v.SetFloat(float64(math.Float32frombits(uint32(n))))
	case first != cborNull:
		return errForm
	}
	return nil
}

func (r *reader) text() (s string, err error) {
	n, _, err := r.is(majorText)
	if err != nil {
		return "", err
	}
	b, err := r.cut(n)
	if err == nil && !utf8.Valid(b) {
		err = errForm
	}
	return string(b), err
}

func readText(r *reader, v reflect.Value) error {
	s, err := r.text()
	v.SetString(s)
	return err
}

func readBytes(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err == nil {
		v.SetBytes(append(make([]byte, 0, n), b...))
	}
	return err
}

// readArray reads an array of bytes. It must have their number.
func readArray(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err == nil && len(b) != v.Len() {
		err = errForm
	}
	if err == nil {
		copy(v.Bytes(), b)
	}
	return err
}

func readBinary(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err != nil {
		return err
	}
	return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
}

func pointerReader(t reflect.Type, element *coder) func(*reader, reflect.Value) error {
	return func(r *reader, v reflect.Value) error {
		if len(r.b) > 0 && r.b[0] == cborNull {
			r.b = r.b[1:]
			return nil
		}
		v.Set(reflect.New(t.Elem()))
		return element.read(r, v.Elem())
	}
}

func listReader(t reflect.Type, element *coder) func(*reader, reflect.Value) error {
	return func(r *reader, v reflect.Value) error {
		n, null, err := r.is(majorList)
		if err != nil || null {
			return err
		}
		if err := r.enter(n, MaxElements); err != nil {
			return err
		}
		all := reflect.MakeSlice(t, int(n), int(n))
		for i := range int(n) {
			if err := element.read(r, all.Index(i)); err != nil {
				return err
			}
		}
		r.depth--
		v.Set(all)
		return nil
	}
}

// arrayReader returns the function that reads an array. All elements must be there.
func arrayReader(element *coder) func(*reader, reflect.Value) error {
	return func(r *reader, v reflect.Value) error {
		n, null, err := r.is(majorList)
		if err != nil || null {
			return err
		}
		if n != uint64(v.Len()) {
			return errForm
		}
		if err := r.enter(n, MaxElements); err != nil {
			return err
		}
		for i := range int(n) {
			if err := element.read(r, v.Index(i)); err != nil {
				return err
			}
		}
		r.depth--
		return nil
	}
}

// mapReader returns the function that reads a map with texts as keys.
func mapReader(t reflect.Type, element *coder) func(*reader, reflect.Value) error {
	return func(r *reader, v reflect.Value) error {
		n, null, err := r.is(majorMap)
		if err != nil || null {
			return err
		}
		if err := r.enter(n, maxFields); err != nil {
			return err
		}
		all := reflect.MakeMapWithSize(t, int(n))
		for range n {
			key, err := r.text()
			if err != nil {
				return err
			}
			k, of := reflect.ValueOf(key).Convert(t.Key()), reflect.New(t.Elem()).Elem()
			if all.MapIndex(k).IsValid() {
				return errTwice
			}
			if err := element.read(r, of); err != nil {
				return err
			}
			all.SetMapIndex(k, of)
		}
		r.depth--
		v.Set(all)
		return nil
	}
}

// read reads a struct from a map of its fields.
func (s *structure) read(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorMap)
	if err != nil || null {
		return err
	}
	if err := r.enter(n, maxFields); err != nil {
		return err
	}
	var seen uint64 // by number
	for range n {
		major, _, number, err := r.head()
		switch {
		case err != nil:
			return err
		case major != majorUint:
			return errForm
		case number > maxNumber || s.by[number] == 0:
			if err := r.skip(); err != nil {
				return err
			}
			continue
		case seen&(1<<number) != 0:
			return errTwice
		}
		seen |= 1 << number
		f := &s.fields[s.by[number]-1]
		if err := f.read(r, f.of(v)); err != nil {
			return fmt.Errorf("field %d: %w", number, err)
		}
	}
	r.depth--
	return nil
}

// readList reads a struct from the list of its fields.
func (s *structure) readList(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorList)
	switch {
	case err != nil || null:
		return err
	case n != uint64(len(s.fields)):
		return errForm
	}
	if err := r.enter(n, MaxElements); err != nil {
		return err
	}
	for i := range s.fields {
		if err := s.fields[i].read(r, s.fields[i].of(v)); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}
