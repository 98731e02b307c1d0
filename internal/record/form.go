package record

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unsafe"
)

// A struct of running code can be a record as it is: fields with a number in their tag are part of it, also unexported
// ones. The library writes a copy of it, of a type that it knows: a form. Points in time are Moments there.
// The tag `record:"inline"` makes the numbered fields of a struct those of the struct around it, as embedding does.
// With `record:"inline+4"`, their numbers are higher by 4, and zeros are left out. The tag `record:"list"` makes an
// array of numbers a list, which is none if all its elements are zero.

// form is how a type stands in a record. save copies to that type, and load from it.
type form struct {
	of         reflect.Type
	save, load move
	rooms      sync.Pool // pointers to values of zero
}

// move copies a value.
type move func(now time.Time, from, to unsafe.Pointer)

// forms has the forms of all types that were used.
var forms sync.Map

var (
	timeType  = reflect.TypeFor[time.Time]()
	binary    = reflect.TypeFor[encoding.BinaryMarshaler]()
	ofMoments = &form{
		of:   reflect.TypeFor[Moment](),
		save: func(now time.Time, from, to unsafe.Pointer) { *(*Moment)(to) = MomentOf(now, *(*time.Time)(from)) },
		load: func(now time.Time, from, to unsafe.Pointer) { *(*time.Time)(to) = (*Moment)(from).Time(now) },
	}
)

func formOf(t reflect.Type) *form {
	if f, ok := forms.Load(t); ok {
		return f.(*form)
	}
	f := newForm(t)
	forms.Store(t, f)
	return f
}

func newForm(t reflect.Type) *form {
	switch {
	case t == timeType:
		return ofMoments
	case t.Kind() == reflect.Pointer:
		if elem := formOf(t.Elem()); elem.of != t.Elem() {
			of := reflect.PointerTo(elem.of)
			return &form{of: of, save: movePointer(elem.of, elem.save), load: movePointer(t.Elem(), elem.load)}
		}
	case t.Kind() == reflect.Slice:
		if elem := formOf(t.Elem()); elem.of != t.Elem() {
			of := reflect.SliceOf(elem.of)
			return &form{of: of, save: moveSlice(t, of, elem.save), load: moveSlice(of, t, elem.load)}
		}
	case t.Kind() == reflect.Array:
		if elem := formOf(t.Elem()); elem.of != t.Elem() {
			n, in, out, of := t.Len(), t.Elem().Size(), elem.of.Size(), reflect.ArrayOf(t.Len(), elem.of)
			return &form{of: of, save: moveArray(n, in, out, elem.save), load: moveArray(n, out, in, elem.load)}
		}
	case t.Kind() == reflect.Struct && !isWhole(t):
		return newStruct(t)
	}
	return &form{of: t, save: moveWhole(t), load: moveWhole(t)}
}

// isWhole reports whether the library writes a struct as it is: it has a method for that, or all fields of its record
// are exported, whole, and numbered in their order.
func isWhole(t reflect.Type) bool {
	if t.Implements(binary) {
		return true
	}
	last := 0
	for i := range t.NumField() {
		f := t.Field(i)
		before, isNumbered := last, number(f) > 0
		if last = max(last, number(f)); isNumbered && last == before {
			return false
		}
		switch {
		case f.Name == "_", f.Tag.Get("cbor") == "-" && !f.Anonymous:
		case f.Tag.Get("record") != "":
			return false
		case f.Anonymous:
			if isArray(t) || f.Tag != "" || f.Type.Kind() == reflect.Pointer || formOf(f.Type).of != f.Type {
				return false
			}
		case f.IsExported() != takes(t, f, isArray(t)), f.IsExported() && formOf(f.Type).of != f.Type:
			return false
		}
	}
	return true
}

func isArray(t reflect.Type) bool {
	return t.NumField() > 0 && t.Field(0).Tag.Get("cbor") == ",toarray"
}

// takes reports whether a struct's record has a field. The record of an array has the exported ones, or all if all are
// unexported.
func takes(t reflect.Type, f reflect.StructField, isArray bool) bool {
	isExported := func(f reflect.StructField) bool { return f.IsExported() }
	return number(f) > 0 || isArray && (f.IsExported() || !slices.ContainsFunc(reflect.VisibleFields(t), isExported))
}

// number returns a field's number; 0: it has none.
func number(f reflect.StructField) int {
	text, _, _ := strings.Cut(f.Tag.Get("cbor"), ",")
	n, _ := strconv.Atoi(text)
	return n
}

// member is a field of a struct, or a struct whose members are those of the struct around it.
type member struct {
	*form
	field    reflect.StructField // in the form
	from, to uintptr
	behind   reflect.Type // a pointer is between the struct and its inner members
	inner    []*member
}

func newStruct(t reflect.Type) *form {
	var all []*member
	members := membersOf(t, isArray(t), "", &all)
	var fields []reflect.StructField
	if isArray(t) {
		fields = append(fields, t.Field(0))
	} else {
		slices.SortStableFunc(all, func(a, b *member) int { return cmp.Compare(number(a.field), number(b.field)) })
	}
	for _, p := range all {
		if slices.ContainsFunc(fields, func(f reflect.StructField) bool { return f.Name == p.field.Name }) {
			p.field.Name += strconv.Itoa(number(p.field))
		}
		fields = append(fields, p.field)
	}
	of := reflect.StructOf(fields)
	for i, p := range all {
		p.to = of.Field(len(fields) - len(all) + i).Offset
	}
	return &form{
		of:   of,
		save: func(now time.Time, from, to unsafe.Pointer) { saveMembers(members, now, from, to) },
		load: func(now time.Time, from, to unsafe.Pointer) { loadMembers(members, now, from, to) },
	}
}

// membersOf returns the members of a struct, and appends those with fields of their own to all.
func membersOf(t reflect.Type, isArray bool, before string, all *[]*member) (members []*member) {
	for i := range t.NumField() {
		f := t.Field(i)
		p := &member{from: f.Offset}
		shift, inline := strings.CutPrefix(f.Tag.Get("record"), "inline")
		switch {
		case f.Name == "_", f.Tag.Get("cbor") == "-", !f.Anonymous && !inline && !takes(t, f, isArray):
			continue
		case f.Anonymous || inline:
			of, name := f.Type, before
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
				p.behind = of
			}
			if inline {
				name += exported(f.Name)
			}
			n := len(*all)
			p.inner = membersOf(of, isArray, name, all)
			for _, q := range (*all)[n:] {
				if shift != "" {
					by, _ := strconv.Atoi(shift)
					q.field.Tag = reflect.StructTag(fmt.Sprintf(`cbor:"%d,keyasint,omitempty" secret:"%t"`,
						number(q.field)+by, IsSecret(q.field)))
				}
			}
		case f.Tag.Get("record") == "list":
			p.form = newList(f.Type)
		default:
			p.form = formOf(f.Type)
		}
		if p.form != nil {
			p.field = reflect.StructField{Name: before + exported(f.Name), Type: p.of, Tag: f.Tag}
			*all = append(*all, p)
		}
		members = append(members, p)
	}
	return members
}

func exported(name string) string { return string(unicode.ToUpper(rune(name[0]))) + name[1:] }

func saveMembers(members []*member, now time.Time, from, to unsafe.Pointer) {
	for _, p := range members {
		switch at := unsafe.Add(from, p.from); {
		case p.form != nil:
			p.save(now, at, unsafe.Add(to, p.to))
		case p.behind == nil:
			saveMembers(p.inner, now, at, to)
		case *(*unsafe.Pointer)(at) != nil:
			saveMembers(p.inner, now, *(*unsafe.Pointer)(at), to)
		}
	}
}

func loadMembers(members []*member, now time.Time, from, to unsafe.Pointer) {
	for _, p := range members {
		at := unsafe.Add(to, p.from)
		switch {
		case p.form != nil:
			p.load(now, unsafe.Add(from, p.to), at)
			continue
		case p.behind != nil:
			if *(*unsafe.Pointer)(at) == nil {
				*(*unsafe.Pointer)(at) = reflect.New(p.behind).UnsafePointer()
			}
			at = *(*unsafe.Pointer)(at)
		}
		loadMembers(p.inner, now, from, at)
	}
}

// moveWhole copies a value of a type. Numbers, texts and lists are most of them.
func moveWhole(t reflect.Type) move {
	switch k := t.Kind(); {
	case k == reflect.String:
		return func(_ time.Time, from, to unsafe.Pointer) { *(*string)(to) = *(*string)(from) }
	case k == reflect.Slice:
		return func(_ time.Time, from, to unsafe.Pointer) { *(*[]byte)(to) = *(*[]byte)(from) }
	case k <= reflect.Float64 && t.Size() == 1:
		return func(_ time.Time, from, to unsafe.Pointer) { *(*uint8)(to) = *(*uint8)(from) }
	case k <= reflect.Float64 && t.Size() == 8:
		return func(_ time.Time, from, to unsafe.Pointer) { *(*uint64)(to) = *(*uint64)(from) }
	}
	return func(_ time.Time, from, to unsafe.Pointer) {
		reflect.NewAt(t, to).Elem().Set(reflect.NewAt(t, from).Elem())
	}
}

func movePointer(made reflect.Type, elem move) move {
	return func(now time.Time, from, to unsafe.Pointer) {
		var v unsafe.Pointer
		if p := *(*unsafe.Pointer)(from); p != nil {
			v = reflect.New(made).UnsafePointer()
			elem(now, p, v)
		}
		*(*unsafe.Pointer)(to) = v
	}
}

func moveSlice(source, made reflect.Type, elem move) move {
	return func(now time.Time, from, to unsafe.Pointer) {
		v, list := reflect.NewAt(source, from).Elem(), reflect.NewAt(made, to).Elem()
		if list.SetZero(); v.IsNil() {
			return
		}
		list.Set(reflect.MakeSlice(made, v.Len(), v.Len()))
		for i := range v.Len() {
			elem(now, v.Index(i).Addr().UnsafePointer(), list.Index(i).Addr().UnsafePointer())
		}
	}
}

func moveArray(n int, in, out uintptr, elem move) move {
	return func(now time.Time, from, to unsafe.Pointer) {
		for i := range uintptr(n) {
			elem(now, unsafe.Add(from, i*in), unsafe.Add(to, i*out))
		}
	}
}

// newList is the form of an array as a list. A list that is too long loses its end.
func newList(t reflect.Type) *form {
	of := reflect.SliceOf(t.Elem())
	return &form{
		of: of,
		save: func(_ time.Time, from, to unsafe.Pointer) {
			if v := reflect.NewAt(t, from).Elem(); !v.IsZero() {
				reflect.NewAt(of, to).Elem().Set(v.Slice(0, v.Len()))
			}
		},
		load: func(_ time.Time, from, to unsafe.Pointer) {
			v := reflect.NewAt(t, to).Elem()
			v.SetZero()
			reflect.Copy(v, reflect.NewAt(of, from).Elem())
		},
	}
}
