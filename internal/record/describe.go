package record

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
	"unicode"
)

// Describe returns a record as values for JSON, for people. Fields have their names, and moments are seconds from the
// moment of saving. It leaves out zero values, fields with the tag `secret:"true"`, and the bytes of payloads: they
// become a number of bytes.
func Describe(b []byte) (map[string]any, error) {
	var head Head
	if err := Read(b, &head); err != nil {
		return nil, err
	}
	f, ok := formats[head.Kind]
	if !ok || f.version != head.Version {
		return nil, fmt.Errorf("%w: version %d of %.40q", ErrUnreadable, head.Version, head.Kind)
	}
	v := reflect.New(f.of)
	if err := Read(b, v.Interface()); err != nil {
		return nil, err
	}
	return describeStruct(v.Elem()), nil
}

// DescribeStruct is Describe for a part of a record, at the time of ReadAt. part points to its struct.
func DescribeStruct(now time.Time, part any) map[string]any {
	p := reflect.ValueOf(part)
	f := formOf(p.Type().Elem())
	v := reflect.New(f.of)
	f.save(now, p.UnsafePointer(), v.UnsafePointer())
	return describeStruct(v.Elem())
}

func describeStruct(v reflect.Value) map[string]any {
	fields := make(map[string]any)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch {
		case field.Name == "_" || v.Field(i).IsZero():
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			maps.Copy(fields, describeStruct(v.Field(i)))
		case IsSecret(field):
			fields[snake(field.Name)] = "hidden"
		default:
			fields[snake(field.Name)] = describe(v.Field(i))
		}
	}
	return fields
}

// IsSecret reports whether a field is never shown.
func IsSecret(field reflect.StructField) bool { return field.Tag.Get("secret") == "true" }

func describe(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case Moment:
		return time.Duration(x).Seconds()
	case time.Duration:
		return x.Seconds()
	case []byte:
		return describeBytes(x)
	case encoding.TextMarshaler:
		if text, err := x.MarshalText(); err == nil {
			return string(text)
		}
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return describe(v.Elem())
	case reflect.Struct:
		return describeStruct(v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return map[string]any{"bytes": v.Len()}
		}
		all := make([]any, v.Len())
		for i := range all {
			all[i] = describe(v.Index(i))
		}
		return all
	case reflect.Map:
		all := make(map[string]any)
		for _, key := range v.MapKeys() {
			all[fmt.Sprint(key)] = describe(v.MapIndex(key))
		}
		return all
	}
	return v.Interface()
}

// describeBytes describes a record in a record. Other bytes are only counted: they may be a player's.
func describeBytes(b []byte) any {
	if inner, err := Describe(b); err == nil {
		return inner
	}
	return map[string]any{"bytes": len(b)}
}

// snake returns a field's name as JSON names are written here.
func snake(name string) string {
	var b strings.Builder
	before := 'A'
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) && !unicode.IsUpper(before) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
		before = r
	}
	return b.String()
}
