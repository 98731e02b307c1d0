package record

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// coder writes and reads the values of one type. Values are addressable.
type coder struct {
	empty func(v reflect.Value) bool
	write func(b []byte, v reflect.Value) []byte
	read  func(r *reader, v reflect.Value) error
}

// coders has the coder of each type in use.
var coders sync.Map

// coderOf returns the coder of a type. It panics at a type that a record cannot have: our own mistake.
func coderOf(t reflect.Type) *coder {
	if c, ok := coders.Load(t); ok {
		return c.(*coder)
	}
	c := newCoder(t)
	coders.Store(t, c)
	return c
}

// Addresses are written by their own methods.
var (
	binaryAppender    = reflect.TypeFor[encoding.BinaryAppender]()
	binaryUnmarshaler = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

func newCoder(t reflect.Type) *coder {
	if own := reflect.PointerTo(t); own.Implements(binaryAppender) && own.Implements(binaryUnmarshaler) {
		zero := len(writeBinary(nil, reflect.New(t).Elem())) == 1
		return &coder{func(v reflect.Value) bool { return zero && v.IsZero() }, writeBinary, readBinary}
	}
	switch t.Kind() {
	case reflect.Bool:
		return &coder{func(v reflect.Value) bool { return !v.Bool() }, writeBool, readBool}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &coder{func(v reflect.Value) bool { return v.Uint() == 0 }, writeUint, readUint}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &coder{func(v reflect.Value) bool { return v.Int() == 0 }, writeInt, readInt}
	case reflect.Float64:
		return &coder{func(v reflect.Value) bool { return v.Float() == 0 }, writeFloat, readFloat}
	case reflect.String:
		return &coder{hasNone, writeText, readText}
	case reflect.Pointer:
		element := coderOf(t.Elem())
		return &coder{reflect.Value.IsNil, pointerWriter(element), pointerReader(t, element)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &coder{hasNone, writeBytes, readBytes}
		}
		element := coderOf(t.Elem())
		return &coder{hasNone, listWriter(element), listReader(t, element)}
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return &coder{hasNone, writeArray, readArray}
		}
		element := coderOf(t.Elem())
		return &coder{hasNone, listWriter(element), arrayReader(element)}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			element := coderOf(t.Elem())
			return &coder{hasNone, mapWriter(element), mapReader(t, element)}
		}
	case reflect.Struct:
		return newStructure(t)
	}
	panic(fmt.Sprintf("record: a record cannot have values of %v", t))
}

func hasNone(v reflect.Value) bool { return v.Len() == 0 }

// structure is the coder of a struct.
type structure struct {
	fields []field
	by     [maxNumber + 1]int8 // place of a field by its number, from 1; 0: unknown
}

// maxNumber is the largest number of a field.
const maxNumber = 63

// field is a field of a struct, or of one that is embedded in it.
type field struct {
	*coder
	index  int
	within int    // one more than the place of the embedded struct; 0: none
	omits  bool   // when it is empty
	head   []byte // its number
}

// of returns the field of a value.
func (f *field) of(v reflect.Value) reflect.Value {
	if f.within > 0 {
		v = v.Field(f.within - 1)
	}
	return v.Field(f.index)
}

func newStructure(t reflect.Type) *coder {
	s := new(structure)
	if first, ok := t.FieldByName("_"); ok && first.Tag.Get("cbor") == ",toarray" {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				s.fields = append(s.fields, field{coder: coderOf(f.Type), index: i})
			}
		}
		return &coder{func(reflect.Value) bool { return false }, s.writeList, s.readList}
	}
	s.add(t, 0)
	always := false // one of the fields is always written
	for i := range s.fields {
		always = always || !s.fields[i].omits
	}
	return &coder{func(v reflect.Value) bool { return !always && s.isEmpty(v) }, s.write, s.read}
}

// add adds the fields of a struct.
func (s *structure) add(t reflect.Type, within int) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			s.add(f.Type, i+1)
			continue
		}
		number, options, _ := strings.Cut(f.Tag.Get("cbor"), ",")
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil || n > maxNumber || s.by[n] != 0 || !strings.HasPrefix(options, "keyasint") {
			panic(fmt.Sprintf("record: field %s of %v has no number of its own up to %d", f.Name, t, maxNumber))
		}
		s.fields = append(s.fields, field{
			coder: coderOf(f.Type), index: i, within: within, omits: options == "keyasint,omitempty",
			head: appendHead(nil, majorUint, n),
		})
		s.by[n] = int8(len(s.fields))
	}
}

func (s *structure) isEmpty(v reflect.Value) bool {
	for i := range s.fields {
		if f := &s.fields[i]; !f.empty(f.of(v)) {
			return false
		}
	}
	return true
}
