package record

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// coder writes and reads the values of one type. It knows a value by its address: to find the fields of a large struct
// by reflection takes longer than to write them. Reflection makes a coder once, from the type that it is for.
type coder struct {
	empty func(v unsafe.Pointer) bool
	write func(b []byte, v unsafe.Pointer) []byte
	read  func(r *reader, v unsafe.Pointer) error
}

// coderFor returns the coder of a type that is T in memory.
func coderFor[T any](empty func(v *T) bool, write func([]byte, *T) []byte, read func(*reader, *T) error) *coder {
	return &coder{
		func(v unsafe.Pointer) bool { return empty((*T)(v)) },
		func(b []byte, v unsafe.Pointer) []byte { return write(b, (*T)(v)) },
		func(r *reader, v unsafe.Pointer) error { return read(r, (*T)(v)) },
	}
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
		return binaryCoder(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return pointerCoder(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return coderFor(hasNone, writeBytes, readBytes)
		}
		return listCoder(t)
	case reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCoder(t.Len())
		}
		return arrayCoder(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapCoder(t)
		}
	case reflect.Struct:
		return newStructure(t)
	default:
		if c := plainCoder(t.Kind()); c != nil {
			return c
		}
	}
	panic(fmt.Sprintf("record: a record cannot have values of %v", t))
}

// plainCoder returns the coder of a number, a text or a truth value.
func plainCoder(kind reflect.Kind) *coder {
	switch kind {
	case reflect.Bool:
		return coderFor(func(v *bool) bool { return !*v }, writeBool, readBool)
	case reflect.Uint:
		return uintCoder[uint]()
	case reflect.Uint8:
		return uintCoder[uint8]()
	case reflect.Uint16:
		return uintCoder[uint16]()
	case reflect.Uint32:
		return uintCoder[uint32]()
	case reflect.Uint64:
		return uintCoder[uint64]()
	case reflect.Int:
		return intCoder[int]()
	case reflect.Int8:
		return intCoder[int8]()
	case reflect.Int16:
		return intCoder[int16]()
	case reflect.Int32:
		return intCoder[int32]()
	case reflect.Int64:
		return intCoder[int64]()
	case reflect.Float64:
		return coderFor(func(v *float64) bool { return *v == 0 }, writeFloat, readFloat)
	case reflect.String:
		return coderFor(func(v *string) bool { return *v == "" }, writeText, readText)
	}
	return nil
}

func uintCoder[T uint | uint8 | uint16 | uint32 | uint64]() *coder {
	return coderFor(func(v *T) bool { return *v == 0 }, writeUint[T], readUint[T])
}

func intCoder[T int | int8 | int16 | int32 | int64]() *coder {
	return coderFor(func(v *T) bool { return *v == 0 }, writeInt[T], readInt[T])
}

func binaryCoder(t reflect.Type) *coder {
	at := func(v unsafe.Pointer) any { return reflect.NewAt(t, v).Interface() }
	write := func(b []byte, v unsafe.Pointer) []byte { return writeBinary(b, at(v).(encoding.BinaryAppender)) }
	zero := len(write(nil, reflect.New(t).UnsafePointer())) == 1
	return &coder{
		func(v unsafe.Pointer) bool { return zero && reflect.NewAt(t, v).Elem().IsZero() }, write,
		func(r *reader, v unsafe.Pointer) error { return readBinary(r, at(v).(encoding.BinaryUnmarshaler)) },
	}
}

func pointerCoder(t reflect.Type) *coder {
	element := coderOf(t)
	return coderFor(
		func(v *unsafe.Pointer) bool { return *v == nil },
		func(b []byte, v *unsafe.Pointer) []byte {
			if *v == nil {
				return append(b, cborNull)
			}
			return element.write(b, *v)
		},
		func(r *reader, v *unsafe.Pointer) error {
			if len(r.b) > 0 && r.b[0] == cborNull {
				r.b = r.b[1:]
				return nil
			}
			*v = reflect.New(t).UnsafePointer()
			return element.read(r, *v)
		})
}

// bytesCoder returns the coder of an array of n bytes.
func bytesCoder(n int) *coder {
	return &coder{
		func(unsafe.Pointer) bool { return n == 0 },
		func(b []byte, v unsafe.Pointer) []byte { return appendBytes(b, unsafe.Slice((*byte)(v), n)) },
		func(r *reader, v unsafe.Pointer) error { return r.array(unsafe.Slice((*byte)(v), n)) },
	}
}

func listCoder(t reflect.Type) *coder {
	element, size := coderOf(t.Elem()), t.Elem().Size()
	return &coder{
		func(v unsafe.Pointer) bool { return len(*(*[]struct{})(v)) == 0 }, // its length is where each slice has it
		func(b []byte, v unsafe.Pointer) []byte {
			all := reflect.NewAt(t, v).Elem()
			if all.IsNil() {
				return append(b, cborNull)
			}
			return element.writeAll(b, all.UnsafePointer(), all.Len(), size)
		},
		func(r *reader, v unsafe.Pointer) error {
			n, null, err := r.list()
			if err != nil || null {
				return err
			}
			all := reflect.MakeSlice(t, n, n)
			if err = element.readAll(r, all.UnsafePointer(), n, size); err == nil {
				reflect.NewAt(t, v).Elem().Set(all)
			}
			return err
		},
	}
}

func arrayCoder(t reflect.Type) *coder {
	element, size := coderOf(t.Elem()), t.Elem().Size()
	return &coder{
		func(unsafe.Pointer) bool { return t.Len() == 0 },
		func(b []byte, v unsafe.Pointer) []byte { return element.writeAll(b, v, t.Len(), size) },
		func(r *reader, v unsafe.Pointer) error {
			n, null, err := r.list()
			switch {
			case err != nil || null:
				return err
			case n != t.Len(): // all must be there
				return errForm
			}
			return element.readAll(r, v, n, size)
		},
	}
}

func mapCoder(t reflect.Type) *coder {
	element := coderOf(t.Elem())
	return &coder{
		func(v unsafe.Pointer) bool { return reflect.NewAt(t, v).Elem().Len() == 0 },
		func(b []byte, v unsafe.Pointer) []byte { return element.writeMap(b, reflect.NewAt(t, v).Elem()) },
		func(r *reader, v unsafe.Pointer) error { return element.readMap(r, reflect.NewAt(t, v).Elem()) },
	}
}

func hasNone(v *[]byte) bool { return len(*v) == 0 }

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
	offset uintptr // from the start of the whole struct
	omits  bool    // when it is empty
	head   []byte  // its number
}

// of returns the field of a struct.
func (f *field) of(v unsafe.Pointer) unsafe.Pointer { return unsafe.Add(v, f.offset) }

func newStructure(t reflect.Type) *coder {
	s := new(structure)
	if first, ok := t.FieldByName("_"); ok && first.Tag.Get("cbor") == ",toarray" {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				s.fields = append(s.fields, field{coder: coderOf(f.Type), offset: f.Offset})
			}
		}
		return &coder{func(unsafe.Pointer) bool { return false }, s.writeList, s.readList}
	}
	s.add(t, 0)
	always := false // one of the fields is always written
	for i := range s.fields {
		always = always || !s.fields[i].omits
	}
	return &coder{func(v unsafe.Pointer) bool { return !always && s.isEmpty(v) }, s.write, s.read}
}

// add adds the fields of a struct at an offset in the whole one.
func (s *structure) add(t reflect.Type, at uintptr) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			s.add(f.Type, at+f.Offset)
			continue
		}
		number, options, _ := strings.Cut(f.Tag.Get("cbor"), ",")
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil || n > maxNumber || s.by[n] != 0 || !strings.HasPrefix(options, "keyasint") {
			panic(fmt.Sprintf("record: field %s of %v has no number of its own up to %d", f.Name, t, maxNumber))
		}
		s.fields = append(s.fields, field{
			coder: coderOf(f.Type), offset: at + f.Offset, omits: options == "keyasint,omitempty",
			head: appendHead(nil, majorUint, n),
		})
		s.by[n] = int8(len(s.fields))
	}
}

func (s *structure) isEmpty(v unsafe.Pointer) bool {
	for i := range s.fields {
		if f := &s.fields[i]; !f.empty(f.of(v)) {
			return false
		}
	}
	return true
}
