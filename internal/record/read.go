package record

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unicode/utf8"
	"unsafe"
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

func readBool(r *reader, v *bool) error {
	_, first, _, err := r.head()
	switch {
	case err != nil:
		return err
	case first == cborTrue || first == cborFalse || first == cborNull:
		*v = first == cborTrue
		return nil
	}
	return errForm
}

func readUint[T uint | uint8 | uint16 | uint32 | uint64](r *reader, v *T) error {
	n, _, err := r.is(majorUint)
	switch {
	case err != nil:
		return err
	case uint64(T(n)) != n:
		return errRange
	}
	*v = T(n)
	return nil
}

func readInt[T int | int8 | int16 | int32 | int64](r *reader, v *T) error {
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
	if n > math.MaxInt64 || int64(T(whole)) != whole {
		return errRange
	}
	*v = T(whole)
	return nil
}

func readFloat(r *reader, v *float64) error {
	_, first, n, err := r.head()
	switch {
	case err != nil:
		return err
	case first == cborFloat64:
		*v = math.Float64frombits(n)
	case first == cborFloat32:
		*v = float64(math.Float32frombits(uint32(n)))
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

func readText(r *reader, v *string) (err error) {
	*v, err = r.text()
	return err
}

func readBytes(r *reader, v *[]byte) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err == nil {
		*v = append(make([]byte, 0, n), b...)
	}
	return err
}

// array reads an array of bytes. It must have their number.
func (r *reader) array(v []byte) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err == nil && len(b) != len(v) {
		err = errForm
	}
	if err == nil {
		copy(v, b)
	}
	return err
}

func readBinary(r *reader, v encoding.BinaryUnmarshaler) error {
	n, null, err := r.is(majorBytes)
	if err != nil || null {
		return err
	}
	b, err := r.cut(n)
	if err != nil {
		return err
	}
	return v.UnmarshalBinary(b)
}

// list begins a list, which readAll reads.
func (r *reader) list() (n int, null bool, err error) {
	many, null, err := r.is(majorList)
	if err == nil && !null {
		err = r.enter(many, MaxElements)
	}
	return int(many), null, err
}

// readAll reads the n elements of a list that has begun. Each has the given size.
func (c *coder) readAll(r *reader, first unsafe.Pointer, n int, size uintptr) error {
	for i := range uintptr(n) {
		if err := c.read(r, unsafe.Add(first, i*size)); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}

// readMap reads a map with texts as keys.
func (c *coder) readMap(r *reader, v reflect.Value) error {
	n, null, err := r.is(majorMap)
	if err != nil || null {
		return err
	}
	if err := r.enter(n, maxFields); err != nil {
		return err
	}
	t := v.Type()
	all := reflect.MakeMapWithSize(t, int(n))
	for range n {
		key, err := r.text()
		if err != nil {
			return err
		}
		k, of := reflect.ValueOf(key).Convert(t.Key()), reflect.New(t.Elem())
		if all.MapIndex(k).IsValid() {
			return errTwice
		}
		if err := c.read(r, of.UnsafePointer()); err != nil {
			return err
		}
		all.SetMapIndex(k, of.Elem())
	}
	r.depth--
	v.Set(all)
	return nil
}

// read reads a struct from a map of its fields.
func (s *structure) read(r *reader, v unsafe.Pointer) error {
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
func (s *structure) readList(r *reader, v unsafe.Pointer) error {
	n, null, err := r.list()
	switch {
	case err != nil || null:
		return err
	case n != len(s.fields):
		return errForm
	}
	for i := range s.fields {
		if err := s.fields[i].read(r, s.fields[i].of(v)); err != nil {
			return err
		}
	}
	r.depth--
	return nil
}
